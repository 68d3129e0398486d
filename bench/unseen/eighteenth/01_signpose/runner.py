import math
import time

import torch

from batching import endless


class Smooth:
    def __init__(self, beta=0.9):
        self.beta, self.value = beta, None

    def update(self, x):
        self.value = x if self.value is None else self.beta * self.value + (1 - self.beta) * x


class Runner:
    def __init__(self, model, criterion, loaders, optim_cfg, steps, log_every, eval_every):
        self.model, self.criterion, self.loaders = model, criterion, loaders
        self.steps, self.log_every, self.eval_every = steps, log_every, eval_every
        self.clip = optim_cfg["clip"]
        decay, plain = [], []
        for p in model.parameters():
            (decay if p.ndim > 1 else plain).append(p)
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": optim_cfg["weight_decay"]}, {"params": plain, "weight_decay": 0.0}],
            lr=optim_cfg["lr"])
        warm = optim_cfg["warmup"]
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda s: min(1.0, (s + 1) / warm) * 0.5 * (1 + math.cos(math.pi * min(1.0, s / max(1, steps)))))
        self.loss = Smooth()

    def train_step(self, batch):
        logits = self.model(batch["x"], batch["mask"])
        loss = self.criterion(logits, batch["y"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hits = total = 0
        for batch in self.loaders["val"]:
            pred = self.model(batch["x"], batch["mask"]).argmax(-1)
            hits += (pred == batch["y"]).sum().item()
            total += len(pred)
        self.model.train()
        return hits / total

    def run(self):
        start = time.perf_counter()
        stream = endless(self.loaders["train"])
        for step in range(1, self.steps + 1):
            self.loss.update(self.train_step(next(stream)))
            if step % self.log_every == 0:
                print(f"step {step:4d}  loss {float(self.loss.value):.4f}  "
                      f"lr {self.schedule.get_last_lr()[0]:.2e}  {time.perf_counter() - start:.1f}s", flush=True)
            if step % self.eval_every == 0:
                print(f"step {step:4d}  val top-1 {self.evaluate():.3f}", flush=True)
