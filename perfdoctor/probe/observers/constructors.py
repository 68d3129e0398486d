"""Models, optimizers and double precision, with the line of the script that constructed or asked for each.

All of it happens once, before or while training begins; a step costs nothing here.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ...wire.events.script import DoublePrecisionEvent, OptimizerEvent, RootModuleEvent
from ..constructor_lines import ConstructorLines
from ..module_parts import gradient_of, parameters_of
from ..observer import Watch, observer
from ..session import Session
from ..user_frames import user_line
from ..wrapping import Args, always


class Constructors:
    """What the script constructed in one process."""

    def __init__(self, session: Session, lines: ConstructorLines, torch: Any) -> None:
        self.session = session
        self.lines = lines
        self.torch = torch

    def root_seen(self, module: Any, size: int) -> None:
        """Write down a model that the script calls, when it is called for the first time."""
        parameters = [p for p in parameters_of(module) if not _is_lazy(p)]
        count = sum(p.numel() for p in parameters)
        trained = [p for p in parameters if p.requires_grad]
        self.session.write(
            RootModuleEvent(
                module=type(module).__module__ + "." + type(module).__qualname__,
                modules=size,
                parameters=count,
                parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
                float64=_share_of(parameters, self.torch.float64, count),
                float16=_share_of(parameters, self.torch.float16, count),
                device=str(next(parameters_of(module)).device),
                built=self.lines.line_of(module, ""),
                at=user_line(),
                float16_trained=_share_of(trained, self.torch.float16, sum(p.numel() for p in trained)),
            )
        )

    def optimizer_seen(self, optimizer: Any, number: int) -> None:
        """Write down an optimizer that steps for the first time, as it acts."""
        tensors = [p for group in optimizer.param_groups for p in group["params"]]
        count = sum(p.numel() for p in tensors)
        first = optimizer.param_groups[0] if optimizer.param_groups else {}
        self.session.write(
            OptimizerEvent(
                id=number,
                class_=type(optimizer).__module__ + "." + type(optimizer).__qualname__,
                way=way_of(first, tensors),
                momentum=bool(first.get("momentum")),
                differentiable=bool(first.get("differentiable")),
                sparse=any((gradient := gradient_of(p)) is not None and gradient.is_sparse for p in tensors),
                tensors=len(tensors),
                elements=count,
                float64=_share_of(tensors, self.torch.float64, count),
                device=tensors[0].device.type if tensors else None,
                built=self.lines.optimizers.get(optimizer),
                at=user_line(),
                complex_numbers=any(p.is_complex() for p in tensors),
            )
        )

    def after_default_dtype(self, token: Any, args: Args, result: Any) -> None:
        """Note who makes double precision the default."""
        if self.torch.get_default_dtype() == self.torch.float64:
            self.session.write(DoublePrecisionEvent(what="torch.set_default_dtype", at=user_line()))

    def after_double(self, token: Any, args: Args, result: Any) -> None:
        """Note who turns a module into double precision."""
        self.session.write(DoublePrecisionEvent(what="Module.double", at=user_line()))


@observer
def constructors(watch: Watch) -> None:
    """Write down models and optimizers when they are first used, and who asks for double precision."""
    torch, seen = watch.torch, Constructors(watch.session, watch.lines, watch.torch)
    watch.wrap(torch.nn.Module, "double", always, seen.after_double, "float64", True)
    watch.wrap(torch, "set_default_dtype", always, seen.after_default_dtype, "float64")
    watch.on_model("root", seen.root_seen)
    watch.on_optimizer("optimizer_built", seen.optimizer_seen)


def way_of(group: Dict[str, Any], tensors: Any) -> Optional[str]:
    """How torch's own optimizers go over their parameters, by the rule of torch.optim; None for others."""
    if "foreach" not in group:
        return None
    if group.get("fused"):
        return "fused"
    if group["foreach"]:
        return "foreach"
    if group["foreach"] is None and group.get("fused") is None and not group.get("differentiable"):
        from torch.utils import _foreach_utils as known

        devices = known._get_foreach_kernels_supported_devices()
        types = known._foreach_supported_types
        if tensors and all(p.device.type in devices and _plain(p, types) for p in tensors):
            return "foreach"
    return "for-loop"


def _plain(parameter: Any, types: Any) -> bool:
    return type(parameter).__name__ == "Parameter" or type(parameter) in types


def _share_of(tensors: Any, dtype: Any, count: int) -> float:
    """The share of all elements that are of this type."""
    return sum(p.numel() for p in tensors if p.dtype == dtype) / count if count else 0.0


def _is_lazy(parameter: Any) -> bool:
    return type(parameter).__name__ == "UninitializedParameter"
