"""Residual network on synthetic texture patches, with a run log in JSON lines."""
import json
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm2d(cout)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(h)) + self.skip(x))


class SmallResNet(nn.Module):
    def __init__(self, widths=(16, 64, 160), classes=6):
        super().__init__()
        self.stem = nn.Conv2d(1, widths[0], 3, 1, 1)
        blocks, cin = [], widths[0]
        for i, w in enumerate(widths):
            blocks += [Block(cin, w, 1 if i == 0 else 2), Block(w, w)]
            cin = w
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class RunLog:
    def __init__(self, path):
        self.file = open(path, "a")

    def scalar(self, step, **values):
        self.file.write(json.dumps({"step": step, **values}) + "\n")

    def tensors(self, step, model):
        for name, p in model.named_parameters():
            for kind, t in (("weight", p.detach()), ("grad", p.grad)):
                counts = torch.histc(t, bins=64)
                lo, hi = t.min().item(), t.max().item()
                mid = t.flatten().median().item()
                rec = {"step": step, "name": name, "kind": kind, "lo": lo, "hi": hi, "mean": t.mean().item(),
                       "std": t.std(unbiased=False).item(), "median": mid, "hist": counts.tolist()}
                self.file.write(json.dumps(rec) + "\n")
        self.file.flush()


def patches(n, g):
    """Stripe patterns; the class is the direction."""
    y = torch.randint(0, 6, (n,), generator=g)
    angle = y.float() * 3.14159 / 6
    grid = torch.linspace(-3, 3, 20)
    gy, gx = torch.meshgrid(grid, grid, indexing="ij")
    phase = torch.rand(n, generator=g) * 6.28
    img = torch.sin(3 * (gx * angle.cos()[:, None, None] + gy * angle.sin()[:, None, None]) + phase[:, None, None])
    return img.unsqueeze(1) + 0.5 * torch.randn(n, 1, 20, 20, generator=g), y


def main(steps=600, batch=12):
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(4)
    model = SmallResNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    with tempfile.TemporaryDirectory() as run_dir:
        log = RunLog(os.path.join(run_dir, "log.jsonl"))
        for step in range(steps):
            x, y = patches(batch, g)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            log.scalar(step, loss=loss.item(), lr=sched.get_last_lr()[0])
            if step % 200 == 0:
                log.tensors(step, model)
            opt.step()
            sched.step()
            if step % 40 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
        log.file.close()


main()
