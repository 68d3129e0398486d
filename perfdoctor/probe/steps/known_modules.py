"""What is known of one module whose calls are watched."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from .batch_layout import LayoutLook

# Of each argument by position, None where it is no plain tensor; the first is one.
Shapes = Tuple[Optional[Tuple[int, ...]], ...]


class KnownModule:
    """Whether it has parameters, in which modes it trains, and what it was given."""

    __slots__ = (
        "alive", "dimension", "followed", "given", "has_parameters", "layout", "plain", "shape", "steady",
        "trained", "trains_in_eval_mode", "validates",
    )  # fmt: skip

    def __init__(self, has_parameters: bool, alive: Any) -> None:
        self.has_parameters = has_parameters
        self.alive = alive  # a weak reference, which forgets the module
        self.trained = False  # it was called in train mode
        self.layout: Optional[LayoutLook] = None  # while it is not known how its batches are laid out
        self.dimension: Optional[int] = 0  # of the samples in what it is given; None: nothing tells
        self.plain = False  # it trains, and nothing more is to be learnt from its calls
        self.followed = False  # somebody is shown each of its calls that trains
        self.trains_in_eval_mode = False  # a backward pass went through a pass in eval mode
        self.validates = False  # no backward followed its last pass in train mode without gradients
        self.given: Optional[Shapes] = None  # to its last call that trained nothing
        self.shape: Tuple[int, ...] = ()  # the first of these
        self.steady: Optional[Shapes] = None  # the same, where the call before was given such as well


# Of a module that was not met. `alive` makes no frame, which torch.compile would count among the script's.
NOBODY = KnownModule(has_parameters=True, alive=type(None))
