import time

import torch
import torch.nn.functional as F


class Hook:
    def start(self, trainer): pass
    def after(self, trainer, loss, logits): pass


class Progress(Hook):
    def __init__(self, every):
        self.every, self.losses = every, []

    def start(self, trainer):
        self.began = time.time()

    def after(self, trainer, loss, logits):
        self.losses.append(loss)
        if trainer.step % self.every == 0 or trainer.step == trainer.cfg.steps:
            mean = torch.stack(self.losses).mean().item()
            print(f"step {trainer.step} loss {mean:.4f} {time.time() - self.began:.1f}s", flush=True)
            self.losses.clear()


class RecallProbe(Hook):
    """Share of rows whose purchase outranks every negative."""

    def __init__(self, every):
        self.every, self.hit, self.n = every, torch.zeros(()), 0

    def after(self, trainer, loss, logits):
        self.hit += (logits.argmax(1) == 0).sum()
        self.n += len(logits)
        if trainer.step % self.every == 0:
            print(f"  top-1 {self.hit.item() / self.n:.3f}", flush=True)
            self.hit.zero_()
            self.n = 0


class Trainer:
    def __init__(self, model, loader, cfg, hooks):
        self.model, self.loader, self.cfg, self.hooks = model, loader, cfg, hooks
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
        self.step = 0

    def batches(self):
        while True:
            yield from self.loader

    def run(self):
        for h in self.hooks:
            h.start(self)
        for batch in self.batches():
            logits = self.model(batch)
            loss = F.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long))
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            self.step += 1
            for h in self.hooks:
                h.after(self, loss.detach(), logits.detach())
            if self.step == self.cfg.steps:
                break
