import math
import time
from itertools import islice

import torch
import torch.nn.functional as F
from torch import nn

from .metrics import Tracker
from .sampling import write


def groups(model, decay):
    two = [p for p in model.parameters() if p.dim() >= 2]
    one = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": two, "weight_decay": decay}, {"params": one, "weight_decay": 0.0}]


class Engine:
    def __init__(self, cfg, model, tok, batches):
        self.cfg, self.model, self.tok, self.batches = cfg, model, tok, batches
        self.opt = torch.optim.AdamW(groups(model, cfg.decay), lr=cfg.lr, betas=(0.9, 0.95))
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, self._lr)
        self.tracker = Tracker()

    def _lr(self, step):
        if step < self.cfg.warmup:
            return (step + 1) / self.cfg.warmup
        done = (step - self.cfg.warmup) / max(self.cfg.steps - self.cfg.warmup, 1)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * done))

    def step(self, batch):
        logits = self.model(batch["x"], batch["mask"])
        nll = F.cross_entropy(logits.flatten(0, 1), batch["y"].flatten(), reduction="none")
        nll = nll.view_as(batch["y"])
        loss = nll[batch["scored"]].mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        self.tracker.observe(loss, logits, batch, nll)

    def fit(self):
        began = time.time()
        for i, batch in enumerate(islice(self.batches, self.cfg.steps), 1):
            self.step(batch)
            if i % self.cfg.report == 0 or i == self.cfg.steps:
                row = " ".join(f"{k} {v:.4f}" for k, v in self.tracker.report().items())
                print(f"step {i} {row} {time.time() - began:.1f}s", flush=True)
            if i % self.cfg.sample_every == 0:
                print("  >", write(self.model, self.tok), flush=True)
