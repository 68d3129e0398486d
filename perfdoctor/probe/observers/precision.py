"""Settings as they act while training: number types, autotuning, autocast, loss scaling.

Looked at before some backwards, written down when something changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from ...wire.events.script import SettingsEvent
from .. import accelerators
from ..autocast import autocast_of
from ..containers import is_a
from ..observer import Watch, observer
from ..recorder import Recorder
from ..user_frames import user_line

if TYPE_CHECKING:
    from ..steps.steps import StepTracker


class TrainingSettings:
    """The settings of one process."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.written: Dict[str, Any] = {}

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Before some backwards."""
        torch = self.steps.torch
        device = loss.device.type if is_a(loss, torch.Tensor) else "cpu"
        now: Dict[str, Any] = {
            "autocast_in_backward": autocast_of(torch, device),
            "scaled": self.steps.losses.unscaled is not None,
            "loss_dtype": str(loss.dtype)[6:] if is_a(loss, torch.Tensor) else None,
            "default_dtype": str(torch.get_default_dtype())[6:],
            "device": device,
        }
        used = accelerators.in_use(torch)
        if used is not None:
            now.update(_of_device(torch, used))
        if now != self.written:
            self.written = now
            self.steps.session.write(SettingsEvent(at=user_line(), **now))


@observer
def precision(watch: Watch) -> None:
    """Read the settings before a few of the backwards."""
    watch.before_some_backwards("settings", TrainingSettings(watch.steps).sample)


def _built_with(torch: Any) -> Optional[int]:
    """The first number of the cuDNN that torch was built with; asking the library itself would load it."""
    ask = getattr(getattr(torch._C, "_cudnn", None), "getCompileVersion", None)
    numbers = ask() if ask is not None else None
    return int(numbers[0]) if isinstance(numbers, tuple) and numbers else None


def _of_device(torch: Any, used: accelerators.Accelerator) -> Dict[str, Any]:
    cudnn = torch.backends.cudnn if used.kind == accelerators.CUDA else None
    found: Dict[str, Any] = {"devices": used.ask("device_count")}
    if cudnn is not None:
        found["cudnn_benchmark"] = cudnn.benchmark
        found["cudnn_version"] = _built_with(torch)
    try:
        found["matmul_precision"] = torch.get_float32_matmul_precision()
        if cudnn is not None:
            found["cudnn_tf32"] = cudnn.allow_tf32
    except RuntimeError:
        pass  # the script uses the newer of two interfaces, and torch refuses to answer through the older
    return found
