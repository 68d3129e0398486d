"""What all that runs around a wrapped call shares: what the call is given, and the two simplest functions.

`patch.wrap` takes `before(args, kwargs)`; its answer goes to `after(token, args, result)` unless it is None.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]


def always(args: Args, kwargs: Kwargs) -> bool:
    """A `before` for which nothing is to see yet: `after` sees each result."""
    return True


def nothing(token: Any, args: Args, result: Any) -> None:
    """An `after` for which nothing is left to see."""
