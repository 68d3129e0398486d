from __future__ import annotations

import time

import torch


class Callback:
    def on_train_begin(self, trainer) -> None: ...

    def on_step_end(self, trainer) -> None: ...

    def on_train_end(self, trainer) -> None: ...


class ProgressPrinter(Callback):
    def __init__(self, every: int):
        self.every = every

    def on_train_begin(self, trainer) -> None:
        self.mark = time.perf_counter()

    def on_step_end(self, trainer) -> None:
        if trainer.step % self.every:
            return
        loss = trainer.rank.mean(trainer.loss)
        now = time.perf_counter()
        if trainer.rank.leads:
            print(f"step {trainer.step:4d}  loss {loss:.5f}  {1e3 * (now - self.mark) / self.every:.0f} ms/step", flush=True)
        self.mark = now


class Validation(Callback):
    def __init__(self, loader, every: int):
        self.loader, self.every = loader, every

    @torch.inference_mode()
    def on_step_end(self, trainer) -> None:
        if trainer.step % self.every:
            return
        network = trainer.network.eval()
        error, power = torch.zeros(()), torch.zeros(())
        for y, volume in self.loader:
            error += (network(y) - volume).square().sum()
            power += volume.square().sum()
        network.train()
        relative = trainer.rank.mean(error) / trainer.rank.mean(power)
        if trainer.rank.leads:
            print(f"step {trainer.step:4d}  relative error {relative ** 0.5:.4f}", flush=True)


class Snapshot(Callback):
    def __init__(self, path: str):
        self.path = path

    def on_train_end(self, trainer) -> None:
        if self.path and trainer.rank.leads:
            torch.save(trainer.network.state_dict(), self.path)
