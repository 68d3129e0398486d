"""Functional groups from infrared spectra.

A convolutional encoder reads the spectrum; in the first part of training it also has to reconstruct a clean
version of the noisy input, which helps with the rare groups. Run on CPU: python train.py
"""
import argparse
import json
import os
import tempfile
import time
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

GROUPS = {
    "alcohol": [(3350, 120, 0.9), (1050, 30, 0.7)],
    "acid": [(2900, 250, 0.8), (1710, 18, 1.0), (1290, 25, 0.4)],
    "ester": [(1740, 14, 1.0), (1210, 28, 0.8)],
    "ketone": [(1715, 14, 1.0)],
    "amide": [(3300, 60, 0.5), (1655, 20, 1.0), (1550, 20, 0.6)],
    "amine": [(3400, 40, 0.3), (1615, 22, 0.3)],
    "nitrile": [(2245, 10, 0.5)],
    "alkyne": [(3300, 15, 0.6), (2120, 10, 0.2)],
    "alkene": [(3070, 20, 0.3), (1645, 14, 0.3), (970, 14, 0.4)],
    "arene": [(3030, 15, 0.3), (1600, 10, 0.4), (1500, 10, 0.5), (750, 14, 0.7)],
    "nitro": [(1540, 14, 0.9), (1350, 14, 0.9)],
    "ether": [(1110, 25, 0.8)],
}
NAMES = list(GROUPS)


def simulate(n, points, seed):
    rng = np.random.default_rng(seed)
    grid = np.linspace(500, 4000, points, dtype=np.float32)
    prior = np.linspace(0.35, 0.08, len(NAMES))
    labels = (rng.random((n, len(NAMES))) < prior).astype(np.float32)
    clean = np.zeros((n, points), dtype=np.float32)
    clean += 0.4 * np.exp(-(((grid - 2930) / 45) ** 2)) * rng.uniform(0.3, 1.2, (n, 1))
    for k, name in enumerate(NAMES):
        for centre, width, height in GROUPS[name]:
            c = centre + rng.normal(0, 8, (n, 1)).astype(np.float32)
            w = width * rng.uniform(0.8, 1.3, (n, 1)).astype(np.float32)
            h = height * rng.uniform(0.4, 1.2, (n, 1)).astype(np.float32) * labels[:, k:k + 1]
            clean += h / (1 + ((grid - c) / w) ** 2)
    drift = np.cumsum(rng.normal(0, 0.004, clean.shape), axis=1).astype(np.float32)
    noisy = clean + drift + rng.normal(0, 0.03, clean.shape).astype(np.float32)
    return [torch.from_numpy(a.astype(np.float32)) for a in (noisy, clean, labels)]


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out, kernel=7, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, kernel, stride=stride, padding=kernel // 2)
        self.norm = nn.BatchNorm1d(c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride=stride) if (c_in != c_out or stride > 1) else nn.Identity()

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x))) + self.skip(x)


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = ConvBlock(1, width, 15, stride=4)
        self.stages = nn.Sequential(
            ConvBlock(width, width, stride=2), ConvBlock(width, 2 * width, stride=2),
            ConvBlock(2 * width, 2 * width), ConvBlock(2 * width, 2 * width, stride=2),
        )

    def forward(self, x):
        return self.stages(self.stem(x[:, None]))


class Decoder(nn.Module):
    def __init__(self, width, points):
        super().__init__()
        self.points = points
        self.b1 = ConvBlock(2 * width, width, 5)
        self.b2 = ConvBlock(width, width, 5)
        self.b3 = ConvBlock(width, width // 2, 5)
        self.out = nn.Conv1d(width // 2, 1, 9, padding=4)

    def forward(self, h):
        h = self.b1(F.interpolate(h, scale_factor=2.0, mode="linear"))
        h = self.b2(F.interpolate(h, scale_factor=4.0, mode="linear"))
        h = self.b3(F.interpolate(h, size=self.points, mode="linear"))
        return self.out(h).squeeze(1)


class SpectrumNet(nn.Module):
    def __init__(self, points, width=32):
        super().__init__()
        self.encoder = Encoder(width)
        self.decoder = Decoder(width, points)
        self.head = nn.Sequential(nn.Linear(4 * width, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, len(NAMES)))

    def forward(self, spectrum, clean=None, labels=None, reconstruct=True):
        h = self.encoder(spectrum)
        out = SimpleNamespace(logits=self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=-1)))
        if labels is not None:
            out.cls_loss = F.binary_cross_entropy_with_logits(out.logits, labels)
            out.recon_loss = 0.0
            if reconstruct:
                out.recon_loss = F.smooth_l1_loss(self.decoder(h), clean, beta=0.1)
        return out


def ramp_down(step, start, end):
    if step <= start:
        return 1.0
    return max(0.0, 1.0 - (step - start) / (end - start))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    tp = fp = fn = torch.zeros(len(NAMES))
    for spectrum, _, labels in loader:
        pred = (model(spectrum).logits > 0).float()
        tp = tp + (pred * labels).sum(0)
        fp = fp + (pred * (1 - labels)).sum(0)
        fn = fn + ((1 - pred) * labels).sum(0)
    model.train()
    return 2 * tp / (2 * tp + fp + fn).clamp(min=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--spectra", type=int, default=2560)
    ap.add_argument("--points", type=int, default=1750)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--recon-weight", type=float, default=2.0)
    ap.add_argument("--recon-hold", type=int, default=10, help="steps at full reconstruction weight")
    ap.add_argument("--recon-off", type=int, default=40, help="step at which the reconstruction term has gone")
    ap.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "ir_groups.pt"))
    args = ap.parse_args()

    accelerator = Accelerator(cpu=True)
    set_seed(3)
    train = TensorDataset(*simulate(args.spectra, args.points, 0))
    val = TensorDataset(*simulate(args.spectra // 8, args.points, 1))
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, batch_size=128)
    model = SpectrumNet(args.points)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train_loader))
    model, opt, train_loader, val_loader, sched = accelerator.prepare(model, opt, train_loader, val_loader, sched)

    step, best = 0, 0.0
    for epoch in range(args.epochs):
        start = time.perf_counter()
        cls_sum = torch.zeros(())
        for spectrum, clean, labels in train_loader:
            weight = args.recon_weight * ramp_down(step, args.recon_hold, args.recon_off)
            out = model(spectrum, clean, labels, reconstruct=weight > 0)
            loss = out.cls_loss + weight * out.recon_loss
            opt.zero_grad(set_to_none=True)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            cls_sum += out.cls_loss.detach()
            step += 1
        f1 = validate(model, val_loader)
        accelerator.print(json.dumps({
            "epoch": epoch, "step": step, "loss": round(cls_sum.item() / len(train_loader), 5), "recon_weight": round(weight, 3),
            "macro_f1": round(f1.mean().item(), 4), "worst": NAMES[int(f1.argmin())], "seconds": round(time.perf_counter() - start, 1)}), flush=True)
        if f1.mean() > best:
            best = f1.mean().item()
            accelerator.save(accelerator.unwrap_model(model).state_dict(), args.out)


if __name__ == "__main__":
    main()
