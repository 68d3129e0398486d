"""DCGAN on handwritten digits, class-conditional."""
import argparse
import json
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


def load_images():
    digits = load_digits()
    x = torch.from_numpy(digits.images).float().unsqueeze(1) / 8.0 - 1.0
    x = F.interpolate(x, size=(32, 32), mode="bilinear", align_corners=False)
    return x, torch.from_numpy(digits.target).long()


class Generator(nn.Module):
    def __init__(self, z_dim, width):
        super().__init__()
        self.width = width
        self.label = nn.Embedding(10, z_dim)
        self.fc = nn.Linear(2 * z_dim, width * 4 * 16)
        self.net = nn.Sequential(
            nn.BatchNorm2d(width * 4), nn.ReLU(True),
            nn.ConvTranspose2d(width * 4, width * 2, 4, 2, 1), nn.BatchNorm2d(width * 2), nn.ReLU(True),
            nn.ConvTranspose2d(width * 2, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z, y):
        h = self.fc(torch.cat([z, self.label(y)], 1))
        return self.net(h.view(-1, self.width * 4, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(width, width * 2, 4, 2, 1), nn.BatchNorm2d(width * 2), nn.LeakyReLU(0.2, True),
            nn.Conv2d(width * 2, width * 2, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Flatten())
        self.score = nn.Linear(width * 2 * 16, 1)
        self.label = nn.Embedding(10, width * 2 * 16)

    def forward(self, x, y):
        h = self.net(x)
        return self.score(h).squeeze(1) + (h * self.label(y)).mean(1)


class RunLog:
    def __init__(self, path):
        self.file = open(path, "w")

    def scalars(self, step, **values):
        self.file.write(json.dumps({"step": step, **values}) + "\n")

    def watch(self, step, **models):
        record = {"step": step}
        for tag, model in models.items():
            for name, p in model.named_parameters():
                for kind, t in (("weight", p), ("grad", p.grad)):
                    if t is None:
                        continue
                    values = t.detach().numpy().ravel()
                    counts, edges = np.histogram(values, bins=64)
                    entry = {"counts": counts.tolist(), "edges": edges.tolist()}
                    if kind == "grad":
                        entry["quantiles"] = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
                    record[f"{tag}/{name}/{kind}"] = entry
        self.file.write(json.dumps(record) + "\n")


def train(args, log):
    images, targets = load_images()
    gen, disc = Generator(args.z_dim, args.g_width), Discriminator(args.d_width)
    opt_g = torch.optim.Adam(gen.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=True)
    opt_d = torch.optim.Adam(disc.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=True)
    step, start = 0, time.time()
    for epoch in range(args.epochs):
        order = torch.randperm(len(images))
        for lo in range(0, len(images) - args.batch + 1, args.batch):
            idx = order[lo:lo + args.batch]
            real, y = images[idx], targets[idx]
            fake = gen(torch.randn(args.batch, args.z_dim), y)

            opt_d.zero_grad()
            loss_d = F.softplus(-disc(real, y)).mean() + F.softplus(disc(fake, y)).mean()
            loss_d.backward(retain_graph=True)
            opt_d.step()

            opt_g.zero_grad()
            loss_g = F.softplus(-disc(fake, y)).mean()
            loss_g.backward()
            opt_g.step()

            log.scalars(step, loss_d=loss_d.item(), loss_g=loss_g.item())
            log.watch(step, gen=gen, disc=disc)
            if step % 40 == 0:
                print(f"epoch {epoch} step {step} D {loss_d.item():.3f} G {loss_g.item():.3f} "
                      f"({time.time() - start:.1f}s)", flush=True)
            step += 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--z-dim", type=int, default=64)
    p.add_argument("--g-width", type=int, default=40)
    p.add_argument("--d-width", type=int, default=8)
    p.add_argument("--lr", type=float, default=2e-4)
    args = p.parse_args()
    torch.manual_seed(99)
    with tempfile.TemporaryDirectory() as run_dir:
        train(args, RunLog(os.path.join(run_dir, "metrics.jsonl")))


if __name__ == "__main__":
    main()
