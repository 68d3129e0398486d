"""Mineral identification from Raman spectra with accelerate: 1-D residual network, augmented on the fly."""
import argparse
import csv
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

MINERALS, POINTS = 40, 768


def make_spectra(n, seed):
    rng = np.random.default_rng(seed)
    book = np.random.default_rng(5)
    axis = np.arange(POINTS, dtype=np.float32)
    peaks = book.uniform(40, POINTS - 40, (MINERALS, 7))
    heights, widths = book.gamma(2.0, 0.5, (MINERALS, 7)), book.uniform(2, 9, (MINERALS, 7))
    pure = (heights[:, :, None] * np.exp(-((axis - peaks[:, :, None]) / widths[:, :, None]) ** 2)).sum(1)
    label = rng.integers(0, MINERALS, n)
    other = rng.integers(0, MINERALS, n)
    x = pure[label] + rng.uniform(0, 0.4, (n, 1)) * pure[other]
    return x.astype(np.float32), label


class Spectra(Dataset):
    """Every spectrum gets a shift, a fluorescence slope and shot noise when it is read."""

    def __init__(self, x, label, train, seed=0):
        self.x, self.label, self.train = np.pad(x, ((0, 0), (4, 4)), mode="edge"), label.tolist(), train
        self.rng = np.random.default_rng(seed)
        axis = np.linspace(-1, 1, POINTS, dtype=np.float32)
        self.basis = np.stack([axis, axis ** 2])

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        if self.train:
            shift = int(self.rng.random() * 9)
            slope = self.rng.standard_normal(2, dtype=np.float32) * np.float32(0.3)
            x = self.rng.standard_normal(POINTS, dtype=np.float32)
            x *= np.float32(0.15)
            x += slope @ self.basis
            x += self.x[i, shift:shift + POINTS]
        else:
            x = self.x[i, 4:-4].copy()
        x -= x.sum() / POINTS
        x *= np.float32((POINTS / x.dot(x)) ** 0.5)
        return torch.from_numpy(x).unsqueeze(0), self.label[i]


class Bottleneck(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        mid = cout // 2
        self.body = nn.Sequential(
            nn.Conv1d(cin, mid, 1, bias=False), nn.BatchNorm1d(mid), nn.ReLU(inplace=True),
            nn.Conv1d(mid, mid, 7, stride=stride, padding=3, bias=False), nn.BatchNorm1d(mid), nn.ReLU(inplace=True),
            nn.Conv1d(mid, cout, 1, bias=False), nn.BatchNorm1d(cout))
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class SpectraNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, width, 9, stride=2, padding=4, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True))
        plan = [(width, 1), (2 * width, 2), (2 * width, 1), (4 * width, 2), (4 * width, 1), (8 * width, 2), (8 * width, 1)]
        blocks, cin = [], width
        for cout, stride in plan:
            blocks.append(Bottleneck(cin, cout, stride))
            cin = cout
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(cin, MINERALS))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=2))


@torch.inference_mode()
def evaluate(model, loader):
    model.eval()
    hits = total = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--accumulate", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=args.accumulate)
    train_loader = DataLoader(Spectra(*make_spectra(8000, 1), train=True), batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(Spectra(*make_spectra(400, 2), train=False), batch_size=100)
    model = SpectraNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02, fused=True)
    model, opt, train_loader, valid_loader = accelerator.prepare(model, opt, train_loader, valid_loader)
    average = [p.detach().clone() for p in model.parameters()]
    step, t0 = 0, time.time()
    with tempfile.TemporaryDirectory() as out, open(os.path.join(out, "history.csv"), "w", newline="") as f:
        history = csv.writer(f)
        history.writerow(["step", "loss", "accuracy", "norm"])
        norm = 0.0
        while step < args.steps:
            for x, y in train_loader:
                with accelerator.accumulate(model):
                    logits = model(x)
                    loss = F.cross_entropy(logits, y, label_smoothing=0.1)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        norm = accelerator.clip_grad_norm_(model.parameters(), 2.0).item()
                    opt.step()
                    opt.zero_grad()
                if accelerator.sync_gradients:
                    torch._foreach_lerp_(average, [p.detach() for p in model.parameters()], 0.01)
                step += 1
                history.writerow([step, loss.item(), (logits.argmax(1) == y).float().mean().item(), norm])
                if step % 50 == 0:
                    print(f"step {step} loss {loss.item():.4f} {(time.time() - t0) / step * 1e3:.1f} ms/step", flush=True)
                if step >= args.steps:
                    break
        print(f"accuracy {evaluate(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
