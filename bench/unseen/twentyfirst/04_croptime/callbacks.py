import time

import torch
from lightning.pytorch.callbacks import Callback


class WeightEMA(Callback):
    """Averages the weights while training and swaps them in for validation."""

    def __init__(self, decay):
        self.decay = decay
        self.shadow = None

    def on_fit_start(self, trainer, pl_module):
        self.live = [p for p in pl_module.net.parameters()]
        self.shadow = [p.detach().clone() for p in self.live]

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        torch._foreach_lerp_(self.shadow, self.live, 1 - self.decay)

    @torch.no_grad()
    def _swap(self):
        for live, shadow in zip(self.live, self.shadow):
            keep = live.clone()
            live.copy_(shadow)
            shadow.copy_(keep)

    def on_validation_start(self, trainer, pl_module):
        if not trainer.sanity_checking:
            self._swap()

    def on_validation_end(self, trainer, pl_module):
        if not trainer.sanity_checking:
            self._swap()


class EpochReport(Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        self.t0 = time.perf_counter()

    def on_validation_end(self, trainer, pl_module):
        if trainer.sanity_checking:
            return
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch}  {time.perf_counter() - self.t0:.1f}s  "
              f"train {float(m.get('train/loss', float('nan'))):.4f}  "
              f"acc {float(m['val/acc']):.3f}  f1 {float(m['val/f1']):.3f}", flush=True)
