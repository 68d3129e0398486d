from __future__ import annotations

from typing import Sequence

import torch
from torch.nn.parallel import DistributedDataParallel

from callbacks import Callback
from process_group import Rank


class Trainer:
    def __init__(self, network: torch.nn.Module, loader, options, rank: Rank, callbacks: Sequence[Callback] = ()):
        self.network = network
        self.parallel = DistributedDataParallel(network, gradient_as_bucket_view=True, forward_sync_buffers=False)
        self.loader = loader
        self.options = options
        self.rank = rank
        self.callbacks = list(callbacks)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=options.lr, fused=True)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, options.steps)
        self.step = 0

    def _emit(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def _batches(self):
        epoch = 0
        while True:
            self.loader.sampler.set_epoch(epoch)
            yield from self.loader
            epoch += 1

    def _update(self, y: torch.Tensor, volume: torch.Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        estimate = self.parallel(y)
        self.loss = 100.0 * torch.nn.functional.mse_loss(estimate, volume)
        self.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.options.clip)
        self.optimizer.step()
        self.schedule.step()

    def fit(self) -> None:
        self.network.train()
        self._emit("on_train_begin")
        for y, volume in self._batches():
            self._update(y, volume)
            self.step += 1
            self._emit("on_step_end")
            if self.step >= self.options.steps:
                break
        self._emit("on_train_end")
