"""Record no gradients in passes that only evaluate.

## What changes
Models that are called in eval mode with gradients on run under `torch.no_grad()`: the graph for a backward
pass is not recorded. Each line that makes such calls is checked first: three passes, recorded as before, have
to end without a backward pass through their outputs.

## Left alone
- Passes with a backward pass through their output: a frozen teacher or critic, or training in eval mode.
- Passes whose input requires a gradient, and modules that compute gradients themselves, as force fields do.
- Passes in train mode, and those already under `no_grad` or `inference_mode`.

A line is assumed to go on as it begins, for the same model called from the same lines.

## Same result
Bit for bit for everything that is trained. What validation prints can differ in the last digits where a
module computes differently without gradients, as `nn.TransformerEncoder` does.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from ..probe.trial.by_hand import Around
from ..probe.trial.tweak import BITWISE, VALIDATION, Tweaking, tweak
from ..probe.user_frames import line_of, user_frames
from ..probe.wrapping import Args, Kwargs
from ._modules import mapped, on_root_calls

WHAT = "passes in eval mode"
PASSES = 3  # that a pass goes unused once may be chance; three times it is what the line is for


class Site:
    """The lines that call one model in eval mode."""

    def __init__(self, at: Optional[Dict[str, Any]]) -> None:
        self.at = at
        self.dropped = 0  # passes whose graph is gone unused
        self.changed = False  # later ones were run without gradients
        self.because: Optional[str] = None  # why its passes are left alone


class Pass:
    """A token that only the graph of one pass holds, so that it is freed with the graph."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def __del__(self) -> None:
        self.site.dropped += 1


class Evaluation:
    """The passes in eval mode of one process."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.torch = here.torch
        self.sites: weakref.WeakKeyDictionary[Any, Dict[Any, Site]] = weakref.WeakKeyDictionary()
        self.watched: Optional[Site] = None  # of the pass under way

    def before(self, module: Any, args: Args, kwargs: Kwargs) -> Optional[Tuple[Args, Kwargs, Any]]:
        """Checks the pass, or runs it without gradients."""
        torch = self.torch
        if module.training or not torch.is_grad_enabled():
            return None
        site = self._site(module)
        if site.because is not None:
            return None
        if _needs_gradient(torch, (args, kwargs)):
            self._leave(site, "an input requires a gradient")
            return None
        if site.dropped < PASSES:
            self.watched = site
            return args, kwargs, (site, None)
        site.changed = True
        self.here.applied(f"{WHAT} recording gradients", True, False, site.at)
        guard = torch.no_grad()
        guard.__enter__()
        return args, kwargs, (site, guard)

    def after(self, token: Tuple[Site, Any], result: Any) -> Any:
        """Ties the pass to its graph, to learn whether the graph is used."""
        site, guard = token
        if guard is not None:
            guard.__exit__(None, None, None)
            return result
        self.watched = None
        if site.because is not None:
            return result
        nodes: List[Any] = []

        def look(tensor: Any) -> Any:
            nodes.append(tensor.grad_fn)
            return tensor

        mapped(self.torch, result, look)
        self._watch([node for node in nodes if node is not None], site)
        return result

    def _watch(self, nodes: List[Any], site: Site) -> None:
        """Tie a pass to the graph behind what it returned; without a graph it proves nothing."""
        if not nodes:
            return
        tied = Pass(site)

        def used(gradients: Any) -> None:
            self._leave(tied.site, "a backward pass goes through their outputs")

        for node in nodes:
            node.register_prehook(self.here.guarded(used))

    def before_gradients(self, args: Args, kwargs: Kwargs) -> None:
        """Called when gradients are computed: a pass around it needs its graph."""
        if self.watched is not None:
            self._leave(self.watched, "the model computes gradients itself")

    def _leave(self, site: Site, because: str) -> None:
        if site.because is None:
            site.because = because
            tell = self.here.withdrawn if site.changed else self.here.left_alone
            tell(WHAT, because, site.at)

    def _site(self, module: Any) -> Site:
        frames = user_frames()
        key = tuple((frame.f_code, frame.f_lineno) for frame in frames)
        sites = self.sites.setdefault(module, {})
        if key not in sites:
            sites[key] = Site(line_of(frames[0]) if frames else None)
        return sites[key]


def _needs_gradient(torch: Any, given: Any) -> bool:
    """Whether a tensor among them, in whatever container, requires a gradient."""
    found: List[Any] = []

    def look(tensor: Any) -> Any:
        if tensor.requires_grad:
            found.append(tensor)
        return tensor

    mapped(torch, given, look)
    return bool(found)


@tweak(
    "--no-grad-eval",
    BITWISE,
    first_epoch=True,
    pays=VALIDATION,
    passes=PASSES,
    edits=[Around("torch.no_grad()")],
)
def no_grad_eval(here: Tweaking) -> None:
    """Run passes in eval mode without gradients where these are not used."""
    torch = here.torch
    own = Evaluation(here)
    on_root_calls(here, own.before, own.after)
    for name in ("backward", "grad"):
        here.alter(torch.autograd, name, own.before_gradients)
