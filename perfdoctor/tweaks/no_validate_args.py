"""Leave out the checks of distributions' arguments.

## What changes
When the script makes its first distribution of `torch.distributions`,
`Distribution.set_default_validate_args(False)` is called: neither arguments nor the values given to
`log_prob` are checked from then on.

## Left alone
- Distributions that are made with `validate_args=True`.
- A script that has turned the checks off itself.

## Same result
Bit for bit. An error that a check would have raised goes unnoticed.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.by_hand import Statement
from ..probe.trial.tweak import BITWISE, Tweaking, tweak

ASKED = 3  # where `validate_args` stands among the arguments of Distribution.__init__, if it is not named
SETTING = "checks of distributions"


@tweak(
    "--no-validate-args",
    BITWISE,
    edits=[Statement("torch.distributions.Distribution.set_default_validate_args(False)")],
)
def no_validate_args(here: Tweaking) -> None:
    """Turn the checks off at the first distribution."""
    kind = here.torch.distributions.Distribution
    settled = False

    def before(args: Any, kwargs: Any) -> None:
        nonlocal settled
        asked = args[ASKED] if len(args) > ASKED else kwargs.get("validate_args")
        if asked is not None:
            if asked:
                here.left_alone(type(args[0]).__name__, "the script asks for its checks")
        elif kind._validate_args:
            settled = True
            kind.set_default_validate_args(False)
            here.applied(SETTING, True, False)
        elif not settled:
            settled = True
            here.left_alone(SETTING, "they are off already")

    here.alter(kind, "__init__", before)
