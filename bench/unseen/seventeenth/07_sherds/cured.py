"""Conditional GAN that draws vessel silhouettes for typology studies.

The catalogue drawings of a dig are scarce, so we train on profile drawings that are
generated from parametric vessel shapes (rim, neck, belly, foot) and stored as .npy plates.
"""
import argparse
import csv
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FORMS = ["amphora", "bowl", "jug", "plate", "unguentarium"]
SIZE = 32


def draw_vessel(form, rng):
    h = np.linspace(0, 1, SIZE)
    belly = {0: 0.55, 1: 0.75, 2: 0.5, 3: 0.9, 4: 0.3}[form] * rng.uniform(0.85, 1.1)
    neck = {0: 0.22, 1: 0.75, 2: 0.3, 3: 0.9, 4: 0.12}[form] * rng.uniform(0.85, 1.15)
    peak = rng.uniform(0.35, 0.6)
    width = neck + (belly - neck) * np.exp(-((h - peak) ** 2) / rng.uniform(0.03, 0.09))
    if form in (1, 3):
        width = width * np.clip((1.05 - h) * (1.4 if form == 1 else 3.0), 0, 1)
    width[h > 0.93] = rng.uniform(0.15, 0.35)
    x = np.abs(np.linspace(-1, 1, SIZE))[None, :]
    image = 1.0 / (1.0 + np.exp((x - width[:, None]) * 25))
    image = image + rng.normal(0, 0.03, image.shape)
    return np.clip(image * 2 - 1, -1, 1).astype(np.float32)


def make_plates(folder, count, seed):
    rng = np.random.default_rng(seed)
    forms = rng.integers(0, len(FORMS), count)
    drawings = np.stack([draw_vessel(int(f), rng) for f in forms])[:, None]
    np.save(os.path.join(folder, "drawings.npy"), drawings)
    np.save(os.path.join(folder, "forms.npy"), forms.astype(np.int64))


def load_plates(folder, holdout):
    drawings = torch.from_numpy(np.load(os.path.join(folder, "drawings.npy")))
    forms = torch.from_numpy(np.load(os.path.join(folder, "forms.npy")))
    train = TensorDataset(drawings[holdout:], forms[holdout:])
    return train, (drawings[:holdout], forms[:holdout])


class Potter(nn.Module):
    """Generator: latent vector and vessel form to a drawing."""

    def __init__(self, latent=64, width=96):
        super().__init__()
        self.latent = latent
        self.width = width
        self.form = nn.Embedding(len(FORMS), 16)
        self.start = nn.Linear(latent + 16, width * 4 * 4)
        self.body = nn.Sequential(
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width, width // 2, 3, padding=1, bias=False),
            nn.BatchNorm2d(width // 2),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width // 2, width // 2, 3, padding=1, bias=False),
            nn.BatchNorm2d(width // 2),
            nn.ReLU(True),
            nn.Conv2d(width // 2, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z, forms):
        h = self.start(torch.cat([z, self.form(forms)], dim=1))
        return self.body(h.view(-1, self.width, 4, 4))


class Curator(nn.Module):
    """Projection discriminator."""

    def __init__(self, width=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1),
            nn.LeakyReLU(0.2, True),
            nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.LeakyReLU(0.2, True),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
            nn.LeakyReLU(0.2, True),
        )
        self.score = nn.Linear(4 * width, 1)
        self.form = nn.Embedding(len(FORMS), 4 * width)

    def forward(self, x, forms):
        h = self.features(x).mean(dim=(2, 3))
        return self.score(h).squeeze(1) + (h * self.form(forms)).sum(1)


class SherdGAN:
    def __init__(self, args, device):
        self.args = args
        self.device = device
        self.gen = Potter().to(device)
        self.disc = Curator().to(device)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=args.lr, betas=(0.0, 0.9))
        self.opt_d = torch.optim.Adam(self.disc.parameters(), lr=2 * args.lr, betas=(0.0, 0.9))

    def noise(self, n):
        return torch.randn(n, self.gen.latent, device=self.device)

    def update_disc(self, real, forms):
        fake = self.gen(self.noise(len(real)), forms)
        real_score = self.disc(real, forms)
        fake_score = self.disc(fake.detach(), forms)
        loss = F.relu(1 - real_score).mean() + F.relu(1 + fake_score).mean()
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def update_gen(self, forms):
        fake = self.gen(self.noise(len(forms)), forms)
        loss = -self.disc(fake, forms).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, drawings, forms):
        self.gen.eval()
        fake = self.gen(self.noise(len(forms)), forms.to(self.device)).cpu()
        self.gen.train()
        gap = 0.0
        for k in range(len(FORMS)):
            chosen = forms == k
            gap += (drawings[chosen].mean(0) - fake[chosen].mean(0)).abs().mean().item()
        return gap / len(FORMS)

    def save(self, path, step):
        torch.save({"step": step, "gen": self.gen.state_dict(), "disc": self.disc.state_dict()}, path)


def cycle(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plates", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--n-critic", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = tempfile.mkdtemp(prefix="sherds_")
    make_plates(folder, args.plates, args.seed)
    train, (val_drawings, val_forms) = load_plates(folder, holdout=200)
    batches = cycle(DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True))
    gan = SherdGAN(args, device)

    log = open(os.path.join(folder, "log.csv"), "w", newline="")
    writer = csv.writer(log)
    writer.writerow(["step", "d_loss", "g_loss", "gap"])
    began = time.perf_counter()
    for step in range(1, args.steps + 1):
        for _ in range(args.n_critic):
            real, forms = next(batches)
            real, forms = real.to(device), forms.to(device)
            d_loss = gan.update_disc(real, forms)
        g_loss = gan.update_gen(forms)

        if step % 25 == 0:
            gap = gan.evaluate(val_drawings, val_forms) if step % 100 == 0 else float("nan")
            writer.writerow([step, d_loss.item(), g_loss.item(), gap])
            print(f"step {step:5d}  d {d_loss.item():.4f}  g {g_loss.item():.4f}  gap {gap:.4f}  "
                  f"{step / (time.perf_counter() - began):.1f} it/s", flush=True)
        if step % 200 == 0:
            gan.save(os.path.join(folder, f"gan_{step}.pt"), step)
    log.close()
    gan.save(os.path.join(folder, "gan_last.pt"), args.steps)


if __name__ == "__main__":
    main()
