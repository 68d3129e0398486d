import time

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

from . import parallel
from .stations import endless_batches


def gaussian_nll(mean, logvar, target):
    return 0.5 * (logvar + (target - mean) ** 2 * torch.exp(-logvar)).mean()


class Engine:
    def __init__(self, model, records, cfg, rank, world, seed):
        self.cfg = cfg
        self.rank = rank
        self.model = DDP(model, gradient_as_bucket_view=True, forward_sync_buffers=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"],
                                           weight_decay=cfg["weight_decay"])
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, cfg["lr"], total_steps=cfg["steps"])
        self.stream = endless_batches(records, cfg["batch_per_rank"], rank, world, seed)

    def step(self, weather, corner, swe):
        mean, logvar = self.model(weather, corner)
        loss = gaussian_nll(mean, logvar, swe)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["clip"])
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def fit(self):
        self.model.train()
        begun = time.perf_counter()
        window = []
        for number in range(1, self.cfg["steps"] + 1):
            window.append(self.step(*next(self.stream)))
            if number % self.cfg["log_every"] == 0:
                loss = parallel.average(torch.stack(window).mean().item())
                window.clear()
                if self.rank == 0:
                    print(f"step {number:4d}  nll {loss:.4f}  {time.perf_counter() - begun:6.1f} s", flush=True)
