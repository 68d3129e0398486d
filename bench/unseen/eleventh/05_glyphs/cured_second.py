"""A small GAN that draws 32x32 glyphs (strokes on a dark ground)."""
import argparse
import time

import numpy as np
import torch
from PIL import Image, ImageDraw
from scipy import linalg
from torch import nn
from torch.nn.functional import softplus

Z = 64


def draw_glyphs(n, seed=0):
    rng = np.random.default_rng(seed)
    out = np.empty((n, 1, 32, 32), dtype=np.float32)
    for i in range(n):
        img = Image.new("L", (32, 32))
        pen = ImageDraw.Draw(img)
        for _ in range(rng.integers(2, 6)):
            x0, y0, x1, y1 = rng.integers(3, 29, 4).tolist()
            if rng.random() < 0.7:
                x1 = x0 if rng.random() < 0.5 else x1
                y1 = y0 if x1 != x0 else y1
            pen.line((x0, y0, x1, y1), fill=255, width=int(rng.integers(1, 4)))
        out[i, 0] = np.asarray(img, dtype=np.float32) / 127.5 - 1
    return torch.from_numpy(out)


class Up(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)

    def forward(self, x):
        x = nn.functional.interpolate(x, scale_factor=2.0)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)))


class Generator(nn.Module):
    def __init__(self, ch=20):
        super().__init__()
        self.fc = nn.Linear(Z, 4 * ch * 16)
        self.body = nn.Sequential(Up(4 * ch, 4 * ch), Up(4 * ch, 2 * ch), Up(2 * ch, ch),
                                  nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, z):
        return torch.tanh(self.body(self.fc(z).view(len(z), -1, 4, 4)))


class Discriminator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        act = nn.LeakyReLU(0.2)
        self.features = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), act, nn.Conv2d(ch, 2 * ch, 4, 2, 1), act,
            nn.Conv2d(2 * ch, 4 * ch, 4, 2, 1), act, nn.Flatten(),
            nn.Linear(4 * ch * 16, 512), act)
        self.out = nn.Linear(512, 1)

    def forward(self, x):
        return self.out(self.features(x)).squeeze(1)


def frechet(a, b):
    """Frechet distance of two sets of feature vectors, each taken as a Gaussian."""
    mu_a, mu_b = a.mean(0), b.mean(0)
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = linalg.sqrtm(cov_a @ cov_b + 1e-10 * np.eye(len(mu_a)))
    return float(((mu_a - mu_b) ** 2).sum() + np.trace(cov_a + cov_b - 2 * np.real(root)))


class Monitor:
    """Keeps the last features of real and generated glyphs and follows their distance."""

    def __init__(self, net, size=1024):
        self.net, self.size = net, size
        self.real, self.fake = [], []
        self.value = float("nan")

    @torch.no_grad()
    def collect(self, real, fake):
        for store, x in ((self.real, real), (self.fake, fake)):
            store.append(self.net.features(x).numpy())
            del store[:-(self.size // len(x))]

    def measure(self):
        a, b = np.concatenate(self.real), np.concatenate(self.fake)
        if len(a) >= self.size // 2:
            new = frechet(a, b)
            self.value = new if np.isnan(self.value) else 0.9 * self.value + 0.1 * new


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(0)
    glyphs = draw_glyphs(6000)

    G, D = Generator(), Discriminator()
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.99))
    torch.manual_seed(1)
    critic = Discriminator().eval().requires_grad_(False)   # fixed random features
    monitor = Monitor(critic)

    start = time.time()
    for step in range(1, args.steps + 1):
        real = glyphs[torch.randint(len(glyphs), (args.batch,))]
        fake = G(torch.randn(args.batch, Z))

        d_loss = softplus(-D(real)).mean() + softplus(D(fake)).mean()
        opt_d.zero_grad()
        d_loss.backward(retain_graph=True)
        opt_d.step()

        D.requires_grad_(False)
        g_loss = softplus(-D(fake)).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        D.requires_grad_(True)

        if step % 2 == 0:
            monitor.collect(real, fake)
        if step % 100 == 0:
            monitor.measure()
        if step % 20 == 0:
            print(f"step {step} d {d_loss.item():.3f} g {g_loss.item():.3f} "
                  f"distance {monitor.value:.2f} {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
