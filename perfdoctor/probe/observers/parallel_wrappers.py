"""Several processes and several devices: wrappers around models, and the default process group."""

from __future__ import annotations

import sys
from typing import Any, Dict

from ...wire import rank_identity
from ...wire.events.ranks import ProcessGroupEvent, WrapperEvent
from .. import patch
from ..moments import Moments
from ..observer import Watch, observer
from ..session import Session
from ..user_frames import user_line
from ..wrapping import Args, always

WRAPPERS = ("DistributedDataParallel", "DataParallel")
COMPOSABLE = "torch.distributed.fsdp._fully_shard._fully_shard"
OLDER_COMPOSABLE = "torch.distributed._composable.fsdp"  # before torch 2.6


class ParallelWrappers:
    """The wrappers and the group of one process."""

    def __init__(self, session: Session, moments: Moments) -> None:
        self.session = session
        self.moments = moments

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
            if wrapper.broadcast_buffers:
                fields["buffer_bytes"] = sum(b.numel() * b.element_size() for b in wrapper.modules_buffers)
            device = getattr(wrapper, "device", None)
            fields["device"] = getattr(device, "type", None)
        self.session.write(WrapperEvent(kind=_kind(wrapper), at=user_line(), **fields))
        if group is not None:
            for call in self.moments.ddp:
                call(wrapper)

    def after_sharding_wrapper(self, token: Any, args: Args, result: Any) -> None:
        """Note that a model was wrapped in the older of torch's two ways to shard one."""
        self.session.write(WrapperEvent(kind="FullyShardedDataParallel", at=user_line()))

    def after_sharding(self, token: Any, args: Args, result: Any) -> None:
        """Note that a model was sharded; `fully_shard` is called once per block."""
        self.session.write(WrapperEvent(kind="FSDP", at=user_line()))

    def after_group(self, token: Any, args: Args, result: Any) -> None:
        """Note the default process group."""
        distributed = sys.modules["torch.distributed"]
        world = distributed.get_world_size()
        self.session.write(
            ProcessGroupEvent(
                backend=distributed.get_backend(),
                world=world,
                job={**rank_identity.identity(), "rank": distributed.get_rank(), "world": world},
                at=user_line(),
            )
        )
        for call in self.moments.process_group:
            call()


@observer
def parallel_wrappers(watch: Watch) -> None:
    """Watch the constructors of wrappers and of the default group."""
    seen = ParallelWrappers(watch.session, watch.moments)
    for name in WRAPPERS:
        owner = getattr(watch.torch.nn.parallel, name)
        watch.wrap(owner, "__init__", always, seen.after_wrapper, "wrapper", True)

    def watch_group(module: Any) -> None:
        _wrap_exported(module, "init_process_group", seen.after_group, "torch.distributed")

    def watch_sharding(module: Any) -> None:
        owner = module.FullyShardedDataParallel
        watch.wrap(owner, "__init__", always, seen.after_sharding_wrapper, "wrapper", True)

    def watch_composable(module: Any) -> None:
        _wrap_exported(module, "fully_shard", seen.after_sharding, "torch.distributed.fsdp")

    def watch_older_composable(module: Any) -> None:
        if COMPOSABLE not in sys.modules:  # else it has the function from there
            _wrap_exported(module, "fully_shard", seen.after_sharding, OLDER_COMPOSABLE)

    for name, hook in (
        ("torch.distributed.distributed_c10d", watch_group),
        ("torch.distributed.fsdp.fully_sharded_data_parallel", watch_sharding),
        (COMPOSABLE, watch_composable),
        (f"{OLDER_COMPOSABLE}.fully_shard", watch_older_composable),
    ):
        watch.on_import(name, "wrapper", hook)


def _kind(wrapper: Any) -> str:
    """Which of torch's wrappers it is, or is made of: a script may have a class of its own below one."""
    names = [each.__name__ for each in type(wrapper).__mro__]
    return next((name for name in names if name in WRAPPERS), names[0])


def _wrap_exported(module: Any, name: str, after: patch.After, package: str) -> None:
    """Wrap a function where it is defined, and in the package that took its name over already."""
    original = getattr(module, name)
    patch.wrap(module, name, always, after, "wrapper")
    exporting = sys.modules.get(package)
    if exporting is not None and getattr(exporting, name, None) is original:
        setattr(exporting, name, getattr(module, name))
