"""What one call of `torch.autograd.backward` or `torch.autograd.grad` is asked for."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ..wrapping import Args, Kwargs

Names = Tuple[str, ...]
# By position. What goes back from where, with which gradients there, by what, and whether that makes a graph:
GRAD: Names = (
    "outputs",
    "inputs",
    "grad_outputs",
    "retain_graph",
    "create_graph",
    "",
    "",
    "is_grads_batched",
)
BACKWARD: Names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")


class BackwardCall:
    """One call, as its arguments tell."""

    def __init__(self, adds: bool, args: Args, kwargs: Kwargs) -> None:
        self.adds = adds  # to the gradients of parameters; else it hands them out
        given: Dict[str, Any] = {**dict(zip(BACKWARD if adds else GRAD, args)), **kwargs}
        self.loss: Any = given.get("tensors" if adds else "outputs")
        seeds = given.get("grad_tensors" if adds else "grad_outputs")
        self.seeds: Any = given.get("grad_variables") if seeds is None else seeds
        self.inputs: Any = given.get("inputs")  # None: all parameters that the graph leads to
        self.makes_graph = given.get("create_graph", False) is not False
        self.is_batched = given.get("is_grads_batched", False) is not False
        self.result: Any = None  # once it has ended
