import time
from itertools import islice

import torch
from torch.utils.data import DataLoader


def endless(loader):
    while True:
        yield from loader


class InversionTrainer:
    def __init__(self, net, loss, settings):
        self.net, self.loss, self.settings = net, loss, settings
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr, weight_decay=1e-3)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, settings.lr, total_steps=settings.steps)

    def fit(self, surveys):
        settings = self.settings
        loader = DataLoader(surveys, settings.batch_size, shuffle=True, drop_last=True)
        since = time.perf_counter()
        for step, (data, target) in enumerate(islice(endless(loader), settings.steps), 1):
            total, parts = self.loss(self.net(data), data, target)
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 2.0)
            self.optimizer.step()
            self.schedule.step()
            if step % settings.print_every == 0:
                now = time.perf_counter()
                detail = "  ".join(f"{name} {value.item():.4f}" for name, value in parts.items())
                print(f"step {step:4d}  loss {total.item():.4f}  {detail}  {(now - since) / settings.print_every * 1e3:.0f} ms/step", flush=True)
                since = now

    @torch.no_grad()
    def report(self, surveys):
        self.net.eval()
        data, target = surveys.tensors
        error = (self.net(data) - target).abs().mean()
        print(f"held-out section error {error.item():.4f}")
