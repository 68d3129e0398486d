import time

import torch

from . import pl
from .metrics import EpochRanking


class RankingMonitor(pl.Callback):
    """Keeps the epoch's ranking metrics, publishes them every `every` steps and when the epoch ends."""

    def __init__(self, n_segments, every):
        self.ranking = EpochRanking(n_segments)
        self.every = every

    def on_train_epoch_start(self, trainer, pl_module):
        self.ranking.reset()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.ranking.update(
            torch.sigmoid(outputs["logits"]).numpy(),
            batch["y"].numpy(),
            batch["cat"][:, 0].numpy(),
        )
        if (batch_idx + 1) % self.every == 0:
            self._publish(trainer)

    def on_train_epoch_end(self, trainer, pl_module):
        self._publish(trainer)

    def _publish(self, trainer):
        report = self.ranking.report
        trainer.callback_metrics.update({k: torch.tensor(v) for k, v in report.flat("train_").items()})


class StochasticWeightTail(pl.Callback):
    """Running mean of the weights over the tail of training, swapped in at the end."""

    def __init__(self, start, every):
        self.start, self.every = start, every
        self.count, self.mean = 0, None

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        step = trainer.global_step
        if step < self.start or step % self.every:
            return
        params = [p.detach() for p in pl_module.parameters()]
        self.count += 1
        if self.mean is None:
            self.mean = [p.clone() for p in params]
        else:
            torch._foreach_lerp_(self.mean, params, 1.0 / self.count)

    @torch.no_grad()
    def on_train_end(self, trainer, pl_module):
        if self.mean is not None:
            torch._foreach_copy_(list(pl_module.parameters()), self.mean)


class LinePrinter(pl.Callback):
    def __init__(self, every):
        self.every = every

    def on_train_start(self, trainer, pl_module):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.every:
            return
        took = time.perf_counter() - self.began
        seen = trainer.callback_metrics
        extra = " ".join(f"{k}={float(seen[k]):.4f}" for k in ("train_auc", "train_ks", "train_worst_auc") if k in seen)
        print(f"step {trainer.global_step:4d}  loss={outputs['loss'].item():.4f} {extra}  [{took:.1f}s]", flush=True)
