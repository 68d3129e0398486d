from __future__ import annotations

import contextlib

import torch
from transformers import TrainerCallback


class WeightAverage(TrainerCallback):
    """Exponential moving average of the weights, swapped in for evaluation."""

    def __init__(self, model: torch.nn.Module, decay: float = 0.99):
        self.decay = decay
        self.live = [p for p in model.parameters() if p.requires_grad]
        self.shadow = [p.detach().clone() for p in self.live]

    @torch.no_grad()
    def on_step_end(self, args, state, control, **kwargs):
        torch._foreach_lerp_(self.shadow, [p.detach() for p in self.live], 1.0 - self.decay)

    @contextlib.contextmanager
    def swapped(self):
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        held = [p.detach().clone() for p in self.live]
        torch._foreach_copy_([p.detach() for p in self.live], self.shadow)
        torch._foreach_copy_(self.shadow, held)
