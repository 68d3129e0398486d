"""What the script builds, and on which line: layers, optimizers, process groups, wrappers around models.

All of it happens once, before or while training begins; a step costs nothing here.
"""

from __future__ import annotations

import os
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Optional, Tuple

from . import job, patch
from .imports import on_import
from .record import clock
from .session import Session
from .where import is_users, user_line

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]
Line = Tuple[CodeType, int]

LAYERS_MAX = 50_000  # layers whose lines are remembered; the largest language models have a few thousand
WRAPPERS = ("DistributedDataParallel", "DataParallel")


class Built:
    """The constructors of one process."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.layers: Dict[int, Tuple[weakref.ref[Any], Line]] = {}  # by identity, which is used again
        self.optimizers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.searches = False  # whether searching for unused parameters is timed
        self.search_calls, self.search_s = 0, 0.0
        self.on_group: Callable[[], None] = lambda: None  # the process has its default group
        self.on_parallel: Callable[[Any], None] = lambda model: None  # with a DistributedDataParallel

    # ------------------------------------------------------------ layers

    def before_layer(self, args: Args, kwargs: Kwargs) -> None:
        """Note the line that builds a module; what copies it without its constructor leaves no line."""
        module = args[0]
        line = _building_line(module)
        if line is not None:
            if len(self.layers) >= LAYERS_MAX:
                self.layers.clear()
            self.layers[id(module)] = weakref.ref(module), line

    def line_of(self, root: Any, path: str) -> Optional[Dict[str, Any]]:
        """The line that built the module at `path` below `root`, or the nearest one around it."""
        modules = dict(root.named_modules()) if path else {"": root}
        while True:
            module = modules.get(path)
            reference, line = self.layers.get(id(module), (None, None))
            if line is not None and reference is not None and reference() is module:
                return _as_event(line)
            if not path:
                return None
            path = path.rpartition(".")[0]

    def root_seen(self, module: Any, size: int) -> None:
        """Write down a model that the script calls, when it is called for the first time."""
        parameters = [p for p in module.parameters() if not _is_lazy(p)]
        count = sum(p.numel() for p in parameters)
        self.session.event(
            "root",
            module=type(module).__module__ + "." + type(module).__qualname__,
            modules=size,
            parameters=count,
            parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
            float64=_share_of(parameters, self.torch.float64, count),
            float16=_share_of(parameters, self.torch.float16, count),
            device=str(next(module.parameters()).device),
            built=self.line_of(module, ""),
            at=user_line(),
        )

    # ------------------------------------------------------------ optimizers

    def after_optimizer(self, token: Any, args: Args, result: Any) -> None:
        """Keep the line of the constructor until the optimizer's first step."""
        self.optimizers[args[0]] = user_line()

    def optimizer_seen(self, optimizer: Any, number: int) -> None:
        """Write down an optimizer that steps for the first time, as it acts."""
        tensors = [p for group in optimizer.param_groups for p in group["params"]]
        count = sum(p.numel() for p in tensors)
        first = optimizer.param_groups[0] if optimizer.param_groups else {}
        self.session.event(
            "optimizer",
            id=number,
            **{"class": type(optimizer).__module__ + "." + type(optimizer).__qualname__},
            way=way_of(first, tensors),
            momentum=bool(first.get("momentum")),
            differentiable=bool(first.get("differentiable")),
            sparse=any(p.grad is not None and p.grad.is_sparse for p in tensors),
            tensors=len(tensors),
            elements=count,
            float64=_share_of(tensors, self.torch.float64, count),
            device=tensors[0].device.type if tensors else None,
            built=self.optimizers.get(optimizer),
            at=user_line(),
        )

    # ------------------------------------------------------------ several processes, several devices

    def after_wrapper(self, token: Any, args: Args, result: Any) -> None:
        """Note that a model was wrapped for several processes or devices."""
        wrapper = args[0]
        fields: Dict[str, Any] = {"devices": len(getattr(wrapper, "device_ids", None) or ())}
        group = getattr(wrapper, "process_group", None)
        if group is not None:
            fields["backend"] = sys.modules["torch.distributed"].get_backend(group)
            fields["world"] = group.size()
            fields["find_unused"] = bool(wrapper.find_unused_parameters)
            fields["static_graph"] = bool(wrapper.static_graph)
            fields["bucket_bytes"] = wrapper.bucket_bytes_cap
            fields["bucket_view"] = bool(wrapper.gradient_as_bucket_view)
            device = getattr(wrapper, "device", None)
            fields["device"] = getattr(device, "type", None)
        self.session.event("wrapper", kind=type(wrapper).__name__, at=user_line(), **fields)
        if group is not None:
            self.on_parallel(wrapper)
        if fields.get("find_unused") and not self.searches:
            self.searches = True
            patch.wrap(
                type(wrapper), "_post_forward", _now, self.after_search, "search of unused parameters", True
            )

    def after_search(self, begin_ns: int, args: Args, result: Any) -> None:
        """Add up what DistributedDataParallel does after a forward: the search is nearly all of it."""
        self.search_calls += 1
        self.search_s += (clock() - begin_ns) / 1e9

    def after_sharding(self, token: Any, args: Args, result: Any) -> None:
        """Note that a model was sharded; `fully_shard` is called once per block."""
        self.session.event("wrapper", kind="FSDP", at=user_line())

    def after_group(self, token: Any, args: Args, result: Any) -> None:
        """Note the default process group."""
        distributed = sys.modules["torch.distributed"]
        world = distributed.get_world_size()
        self.session.event(
            "process_group",
            backend=distributed.get_backend(),
            world=world,
            job={**job.identity(), "rank": distributed.get_rank(), "world": world},
            at=user_line(),
        )
        self.on_group()

    # ------------------------------------------------------------ number types

    def after_default_dtype(self, token: Any, args: Args, result: Any) -> None:
        """Note who makes double precision the default."""
        if self.torch.get_default_dtype() == self.torch.float64:
            self.session.event("float64", what="torch.set_default_dtype", at=user_line())

    def after_double(self, token: Any, args: Args, result: Any) -> None:
        """Note who turns a module into double precision."""
        self.session.event("float64", what="Module.double", at=user_line())


def install(built: Built) -> None:
    """Put the hooks into torch."""
    torch = built.torch
    patch.wrap(torch.nn.Module, "__init__", built.before_layer, _nothing, "layer", True)
    patch.wrap(torch.nn.Module, "double", _always, built.after_double, "float64", True)
    patch.wrap(torch, "set_default_dtype", _always, built.after_default_dtype, "float64")
    patch.wrap(torch.optim.Optimizer, "__init__", _always, built.after_optimizer, "optimizer_built", True)
    for name in WRAPPERS:
        patch.wrap(
            getattr(torch.nn.parallel, name), "__init__", _always, built.after_wrapper, "wrapper", True
        )

    def watch_group(module: Any) -> None:
        _wrap_exported(module, "init_process_group", built.after_group, "torch.distributed")

    def watch_sharding(module: Any) -> None:
        patch.wrap(
            module.FullyShardedDataParallel, "__init__", _always, built.after_sharding, "wrapper", True
        )

    def watch_composable(module: Any) -> None:
        _wrap_exported(module, "fully_shard", built.after_sharding, "torch.distributed.fsdp")

    for name, watch in (
        ("torch.distributed.distributed_c10d", watch_group),
        ("torch.distributed.fsdp.fully_sharded_data_parallel", watch_sharding),
        ("torch.distributed.fsdp._fully_shard._fully_shard", watch_composable),
    ):
        on_import(name, patch.guarded("wrapper", watch))


def _wrap_exported(module: Any, name: str, after: patch.After, package: str) -> None:
    """Wrap a function where it is defined, and in the package that took its name over already."""
    original = getattr(module, name)
    patch.wrap(module, name, _always, after, "wrapper")
    exporting = sys.modules.get(package)
    if exporting is not None and getattr(exporting, name, None) is original:
        setattr(exporting, name, getattr(module, name))


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


def _building_line(module: Any) -> Optional[Line]:
    """The innermost line of the user's that is not itself inside the module's constructor."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename) and not _constructs(frame, module):
            return code, frame.f_lineno
        frame = frame.f_back
    return None


def _constructs(frame: FrameType, module: Any) -> bool:
    code = frame.f_code
    return (
        code.co_name == "__init__"
        and bool(code.co_varnames)
        and frame.f_locals.get(code.co_varnames[0]) is module
    )


def _as_event(line: Line) -> Dict[str, Any]:
    """As `where.line_of` tells a frame; the frame itself would keep all its locals alive."""
    code, number = line
    return {"file": os.path.abspath(code.co_filename), "line": number, "function": code.co_name}


def _is_lazy(parameter: Any) -> bool:
    return type(parameter).__name__ == "UninitializedParameter"


def _always(args: Args, kwargs: Kwargs) -> bool:
    return True


def _now(args: Args, kwargs: Kwargs) -> int:
    return clock()


def _nothing(token: Any, args: Args, result: Any) -> None:
    return None
