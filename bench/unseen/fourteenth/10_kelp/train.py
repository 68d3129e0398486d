"""Kelp forest cover (none, sparse, dense, mixed, understorey, wrack) from five-band drone tiles, trained with SAM.

Sharpness-aware minimization (Foret et al. 2021) takes two gradients for each step: one to climb to the worst point near the weights,
one there. An exponential average of the weights is kept for evaluation. Tiles are rendered as they are asked for.
"""
import argparse
import csv
import math
import os
import time

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset

CLASSES = ["none", "sparse", "dense", "mixed", "understorey", "wrack"]
COVER = np.array([0.0, 0.15, 0.6, 0.35, 0.35, 0.1], np.float32)
KELP = np.array([[0.2, 0.3, 0.25, 0.7, 0.9]] * 5 + [[0.45, 0.35, 0.2, 0.5, 0.45]], np.float32)
WATER = np.array([0.35, 0.3, 0.15, 0.1, 0.05], np.float32)


class DroneTiles(IterableDataset):
    """Endless stream of rendered tiles: patches of canopy from a bank of textures, over water with sun glint."""

    def __init__(self, side=48, seed=0):
        self.side, self.seed = side, seed
        g = torch.Generator().manual_seed(99)
        fine = F.interpolate(torch.randn(32, 1, 24, 24, generator=g), size=128, mode="bicubic")
        coarse = F.interpolate(torch.randn(32, 1, 8, 8, generator=g), size=128, mode="bicubic")
        bank = torch.cat([fine, coarse]).squeeze(1)
        self.bank = (bank.flatten(1).argsort(1).argsort(1).float() / 128 ** 2).view_as(bank).numpy()

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        while True:
            kind = int(rng.integers(len(CLASSES)))
            texture = int(rng.integers(32)) + (32 if kind in (2, 4) else 0)
            y, x = rng.integers(0, 128 - self.side, 2)
            field = self.bank[texture, y:y + self.side, x:x + self.side]
            canopy = (field < COVER[kind] + rng.normal(0, 0.03)).astype(np.float32)
            depth = 0.45 if kind == 4 else 1.0
            tile = WATER[:, None, None] + depth * canopy * (KELP[kind] - WATER)[:, None, None]
            tile = tile * np.float32(rng.uniform(0.8, 1.2)) + 0.08 * rng.standard_normal((5, self.side, self.side), dtype=np.float32)
            yield torch.from_numpy(tile), kind


class Residual(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, cout), nn.GroupNorm(8, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(h)) + self.skip(x))


def build(width=32):
    return nn.Sequential(
        nn.Conv2d(5, width, 3, 2, 1), Residual(width, width), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(4 * width, len(CLASSES)))


class SAM:
    """Climb by rho along the gradient, take the gradient there, come back and let the base optimizer step."""

    def __init__(self, params, base, rho=0.05):
        self.params, self.base, self.rho = list(params), base, rho

    @torch.no_grad()
    def climb(self):
        grads = [p.grad for p in self.params]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        self.offset = torch._foreach_mul(grads, self.rho / (norm.item() + 1e-12))
        torch._foreach_add_(self.params, self.offset)
        self.base.zero_grad(set_to_none=True)
        return norm.item()

    @torch.no_grad()
    def descend(self):
        torch._foreach_sub_(self.params, self.offset)
        self.base.step()
        self.base.zero_grad(set_to_none=True)


@torch.no_grad()
def evaluate(model, average, tiles, kinds):
    """Accuracy of the averaged weights on fixed tiles."""
    now = [p.detach().clone() for p in model.parameters()]
    torch._foreach_copy_(list(model.parameters()), average)
    model.eval()
    right = (model(tiles).argmax(1) == kinds).float().mean().item()
    model.train()
    torch._foreach_copy_(list(model.parameters()), now)
    return right


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--out", default="runs/kelp")
    args = p.parse_args()
    torch.manual_seed(0)
    os.makedirs(args.out, exist_ok=True)

    accelerator = Accelerator(cpu=True)
    model = build()
    base = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(base, lambda s: min(1, (s + 1) / 20) * 0.5 * (1 + math.cos(math.pi * s / args.steps)))
    model, base, loader = accelerator.prepare(model, base, DataLoader(DroneTiles(), batch_size=args.batch))
    sam = SAM(model.parameters(), base)
    average = [q.detach().clone() for q in model.parameters()]
    tiles, kinds = next(iter(DataLoader(DroneTiles(seed=77), batch_size=96)))

    table = open(os.path.join(args.out, "steps.csv"), "w", newline="")
    writer = csv.writer(table)
    writer.writerow(["step", "loss", "worst", "norm", "lr", "seconds"])
    began = time.time()
    for step, (x, y) in enumerate(loader, 1):
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        norm = sam.climb()
        worst = F.cross_entropy(model(x), y)
        accelerator.backward(worst)
        sam.descend()
        sched.step()
        torch._foreach_lerp_(average, [q.detach() for q in model.parameters()], 0.05)

        writer.writerow([step, f"{loss.item():.5f}", f"{worst.item():.5f}", f"{norm:.4f}", f"{sched.get_last_lr()[0]:.5f}", f"{time.time() - began:.2f}"])
        table.flush()
        print(f"step {step:4d} loss {loss.item():.4f} worst {worst.item():.4f} norm {norm:.3f}", flush=True)
        if step % 40 == 0:
            print(f"averaged weights: accuracy {evaluate(model, average, tiles, kinds):.3f}", flush=True)
            torch.save({"step": step, "model": model.state_dict(), "average": average}, os.path.join(args.out, "last.pt"))
        if step >= args.steps:
            break
    table.close()


if __name__ == "__main__":
    main()
