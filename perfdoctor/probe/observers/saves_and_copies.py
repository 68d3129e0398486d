"""What a step does besides computing: checkpoints, copies to a device, and who sets the threads."""

from __future__ import annotations

import os
from _thread import get_ident
from typing import Any, Optional, Tuple

from ...wire.events.script import DeviceEvent, SaveEvent, ThreadsEvent
from ...wire.step_rows import CHECKPOINT, HOST_TO_DEVICE, OTHER, VALIDATION
from .. import accelerators, patch
from ..containers import is_a
from ..instance_methods import replace_for_instances
from ..moments import Moments
from ..observer import Watch, observer
from ..recorder import Recorder
from ..session import Session
from ..user_frames import user_line
from ..wrapping import Args, Kwargs, always


class SaveAndCopyHooks:
    """The hooks of one process."""

    def __init__(self, session: Session, torch: Any, moments: Moments) -> None:
        self.session = session
        self.torch = torch
        self.moments = moments
        self._watches_copies = False

    def before_save(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int]]:
        """Enter checkpoint."""
        recorder = self.session.recording() if self.session.recorder is not None else None
        if recorder is None or recorder.current == CHECKPOINT:
            return None
        recorder.enter(CHECKPOINT)
        recorder.decide(OTHER, OTHER, VALIDATION)
        return recorder, recorder.since

    def after_save(self, token: Tuple[Recorder, int], args: Args, result: Any) -> None:
        """Leave checkpoint and write down what it cost."""
        recorder, begin = token
        recorder.leave()
        path = args[1] if len(args) > 1 else None
        size = os.path.getsize(path) if is_a(path, (str, os.PathLike)) and os.path.exists(path) else None
        seconds = (recorder.since - begin) / 1e9
        self.session.write(SaveEvent(begin_ns=begin, seconds=seconds, bytes=size, at=user_line()))

    def before_copy(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int]]:
        """Enter host_to_device where a CPU tensor is asked to move to an accelerator."""
        recorder = self.session.recorder
        if (
            recorder is None
            or recorder.off
            or recorder.current == HOST_TO_DEVICE
            or args[0].device.type != "cpu"
        ):
            return None
        if recorder.owner != get_ident():
            return None
        recorder.enter(HOST_TO_DEVICE)
        return recorder, recorder.since

    def after_copy(self, token: Tuple[Recorder, int], args: Args, result: Any) -> None:
        """Leave host_to_device; a `.to(...)` that stayed on the CPU was no transfer."""
        recorder, begin = token
        stayed = result is None or result.device.type == "cpu"
        if stayed:
            recorder.current = recorder.stack[-1]
        recorder.leave()
        if self.moments.copied and not stayed:
            ns = recorder.since - begin
            for call in self.moments.copied:
                call(args[0], result, ns)

    def after_threads(self, token: Any, args: Args, result: Any) -> None:
        """Note who sets the number of intra-op threads."""
        self.session.write(ThreadsEvent(intra_op=self.torch.get_num_threads(), at=user_line()))

    def device_seen(self, device: Any) -> None:
        """Name an accelerator that trains, and from then on watch copies to it."""
        if device.type == "cpu" or self._watches_copies:
            return
        self._watches_copies = True
        used = accelerators.of_kind(self.torch, device.type)
        name = used.ask("get_device_name", device) if used is not None else None
        self.session.write(DeviceEvent(backend=device.type, name=name or device.type))
        for name in ("to", device.type):  # `tensor.cuda()`, `tensor.xpu()`
            if hasattr(self.torch.Tensor, name):
                replace_for_instances(self.torch.Tensor, name, self._timed)

    def _timed(self, original: Any) -> Any:
        return patch.around(original, self.before_copy, self.after_copy, "host_to_device")


@observer
def saves_and_copies(watch: Watch) -> None:
    """Time checkpoints, and copies to a device once there is one that trains."""
    torch, hooks = watch.torch, SaveAndCopyHooks(watch.session, watch.torch, watch.moments)
    watch.wrap(torch, "save", hooks.before_save, hooks.after_save, "checkpoint")
    # By its module and name: so `pickle` looks for what is handed to another process.
    patch.replace(torch.serialization, "save", lambda _: torch.save)
    watch.wrap(torch, "set_num_threads", always, hooks.after_threads, "threads")

    def watch_safetensors(module: Any) -> None:
        watch.wrap(module, "save_file", hooks.before_save, hooks.after_save, "checkpoint")

    watch.on_import("safetensors.torch", "checkpoint", watch_safetensors)
    watch.on_device("device", hooks.device_seen)
