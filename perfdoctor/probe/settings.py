"""Settings as they act while training: number types, autotuning, autocast, loss scaling.

Looked at before some backwards, written down when something changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from .calls import autocast_of
from .record import Recorder
from .where import user_line

if TYPE_CHECKING:
    from .steps import Steps


class Settings:
    """The settings of one process."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.written: Dict[str, Any] = {}

    def look(self, recorder: Recorder, loss: Any) -> None:
        """Before some backwards."""
        torch = self.steps.torch
        device = loss.device.type if isinstance(loss, torch.Tensor) else "cpu"
        now: Dict[str, Any] = {
            "autocast_in_backward": autocast_of(torch, device),
            "scaled": self.steps.unscaled is not None,
            "loss_dtype": str(loss.dtype)[6:] if isinstance(loss, torch.Tensor) else None,
            "default_dtype": str(torch.get_default_dtype())[6:],
            "device": device,
        }
        if torch.cuda.is_initialized():
            now.update(_of_cuda(torch))
        if now != self.written:
            self.written = now
            self.steps.session.event("settings", at=user_line(), **now)


def _of_cuda(torch: Any) -> Dict[str, Any]:
    backends = torch.backends
    found = {"devices": torch.cuda.device_count(), "cudnn_benchmark": backends.cudnn.benchmark}
    try:
        found["matmul_precision"] = torch.get_float32_matmul_precision()
        found["cudnn_tf32"] = backends.cudnn.allow_tf32
    except RuntimeError:
        pass  # the script uses the newer of two interfaces, and torch refuses to answer through the older
    return found
