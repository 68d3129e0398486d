import time

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Meter:
    """Mean loss and accuracy since the last reading, over all ranks."""

    def __init__(self):
        self.sums = torch.zeros(3)

    def add(self, loss, logits, labels):
        n = len(labels)
        self.sums += torch.stack([loss * n, (logits.argmax(1) == labels).sum().float(), torch.tensor(float(n))])

    def read(self):
        total = self.sums.clone()
        dist.all_reduce(total)
        self.sums.zero_()
        return (total[0] / total[2]).item(), (total[1] / total[2]).item()


class Engine:
    def __init__(self, model, loader, batches, lr, total_steps, log_every):
        self.model, self.loader, self.batches = model, loader, batches
        self.total_steps, self.log_every = total_steps, log_every
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.02)
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda s: min(1.0, (s + 1) / 20) * max(0.05, 1 - s / max(1, total_steps))
        )
        self.meter = Meter()

    def stream(self):
        epoch = 0
        while True:
            self.batches.set_epoch(epoch)
            yield from self.loader
            epoch += 1

    def step(self, events, gaps, labels):
        logits = self.model(events, gaps)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        self.opt.zero_grad(set_to_none=True)
        self.meter.add(loss.detach(), logits.detach(), labels)

    def fit(self):
        self.model.train()
        began = time.perf_counter()
        for n, batch in enumerate(self.stream(), start=1):
            self.step(*batch)
            if n % self.log_every == 0 or n == self.total_steps:
                loss, acc = self.meter.read()
                if dist.get_rank() == 0:
                    print(f"step {n:4d}  loss {loss:.4f}  acc {acc:.3f}  {time.perf_counter() - began:.1f}s", flush=True)
            if n == self.total_steps:
                break
