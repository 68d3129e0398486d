"""Restoration GAN for light-sheet microscopy: noisy low-dose -> clean high-dose.

A residual generator is trained with an L1 term and a least-squares patch
discriminator conditioned on the noisy input (pix2pix style).
"""
import argparse
import csv
import logging
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("lightsheet")


def make_volume(n, size, seed):
    """Sparse blobs (nuclei) on a dim background, with shot and read noise."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    clean = np.zeros((n, 1, size, size), dtype=np.float32)
    for i in range(n):
        for _ in range(int(rng.integers(5, 12))):
            cy, cx = rng.uniform(0, size, 2)
            r = rng.uniform(1.5, 4.5)
            a = rng.uniform(0.4, 1.0)
            clean[i, 0] += a * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * r * r))
    clean = np.clip(clean, 0, 1.5) / 1.5
    dose = 25.0
    noisy = rng.poisson(clean * dose + 1.0) / dose
    noisy = noisy + rng.normal(0, 0.03, noisy.shape)
    return torch.from_numpy(noisy.astype(np.float32)), torch.from_numpy(clean)


class PatchSampler:
    """Yields random, flipped mini-batches from tensors held in memory."""

    def __init__(self, noisy, clean, batch_size, generator):
        self.noisy, self.clean = noisy, clean
        self.batch_size = batch_size
        self.generator = generator

    def __len__(self):
        return len(self.noisy) // self.batch_size

    def __iter__(self):
        order = torch.randperm(len(self.noisy), generator=self.generator)
        for k in range(len(self)):
            idx = order[k * self.batch_size:(k + 1) * self.batch_size]
            x, y = self.noisy[idx], self.clean[idx]
            flips = [d for d in (2, 3) if torch.rand((), generator=self.generator) < 0.5]
            if flips:
                x, y = x.flip(flips), y.flip(flips)
            yield (x.contiguous(memory_format=torch.channels_last),
                   y.contiguous(memory_format=torch.channels_last))


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(F.relu(self.conv1(x)))


class Restorer(nn.Module):
    def __init__(self, ch=32, blocks=5):
        super().__init__()
        self.head = nn.Conv2d(1, ch, 3, padding=1)
        self.body = nn.Sequential(*[ResBlock(ch) for _ in range(blocks)])
        self.tail = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x):
        return x + self.tail(self.body(self.head(x)))


class PatchCritic(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, 2 * ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * ch, 4 * ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(4 * ch, 1, 3, padding=1),
        )

    def forward(self, x, y):
        return self.net(torch.cat([x, y], dim=1))


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def ls_loss(score, real):
    return F.mse_loss(score, torch.full_like(score, 1.0 if real else 0.0))


class Pix2PixTrainer:
    def __init__(self, args):
        self.args = args
        self.netG = Restorer(args.channels, args.blocks).to(memory_format=torch.channels_last)
        self.netD = PatchCritic().to(memory_format=torch.channels_last)
        self.optG = torch.optim.Adam(self.netG.parameters(), lr=args.lr, betas=(0.5, 0.999))
        self.optD = torch.optim.Adam(self.netD.parameters(), lr=args.lr, betas=(0.5, 0.999))

    def train_step(self, noisy, clean):
        fake = self.netG(noisy)

        # critic
        set_requires_grad(self.netD, True)
        self.optD.zero_grad()
        score_real = self.netD(noisy, clean)
        score_fake = self.netD(noisy, fake)
        loss_d = 0.5 * (ls_loss(score_real, True) + ls_loss(score_fake, False))
        loss_d.backward(retain_graph=True)
        self.optD.step()

        # generator
        set_requires_grad(self.netD, False)
        self.optG.zero_grad()
        loss_adv = ls_loss(self.netD(noisy, fake), True)
        loss_l1 = F.l1_loss(fake, clean)
        loss_g = loss_adv + self.args.lambda_l1 * loss_l1
        loss_g.backward()
        self.optG.step()
        return loss_d.item(), loss_adv.item(), loss_l1.item()

    @torch.inference_mode()
    def psnr(self, noisy, clean):
        self.netG.eval()
        out = torch.cat([self.netG(x) for x in noisy.split(32)])
        self.netG.train()
        mse = (out.clamp(0, 1) - clean).pow(2).mean(dim=(1, 2, 3))
        return (-10 * torch.log10(mse + 1e-8)).mean().item()

    def save(self, path):
        torch.save({"G": self.netG.state_dict(), "D": self.netD.state_dict()}, path)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--images", type=int, default=640)
    ap.add_argument("--size", type=int, default=40)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--channels", type=int, default=32)
    ap.add_argument("--blocks", type=int, default=5)
    ap.add_argument("--lr", type=float, default=2e-4)
    ap.add_argument("--lambda-l1", type=float, default=20.0)
    ap.add_argument("--log-every", type=int, default=40)
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--out", default=None)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)

    out = args.out or tempfile.mkdtemp(prefix="lightsheet_")
    os.makedirs(out, exist_ok=True)
    noisy, clean = make_volume(args.images + 64, args.size, args.seed)
    val = (noisy[-64:], clean[-64:])
    gen = torch.Generator().manual_seed(args.seed)
    loader = PatchSampler(noisy[:-64], clean[:-64], args.batch_size, gen)
    trainer = Pix2PixTrainer(args)
    log.info("G %.2fM parameters, %d batches per epoch, output in %s",
             sum(p.numel() for p in trainer.netG.parameters()) / 1e6, len(loader), out)

    step, spent = 0, 0.0
    with open(os.path.join(out, "log.csv"), "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["step", "loss_d", "loss_adv", "loss_l1"])
        for epoch in range(args.epochs):
            tic = time.perf_counter()
            for x, y in loader:
                losses = trainer.train_step(x, y)
                step += 1
                if step % args.log_every == 0:
                    writer.writerow([step, *losses])
                    log.info("step %d D %.3f adv %.3f L1 %.4f", step, *losses)
            spent += time.perf_counter() - tic
            log.info("epoch %d validation PSNR %.2f dB", epoch, trainer.psnr(*val))
            trainer.save(os.path.join(out, "latest.pt"))
    log.info("%d steps, %.1f ms per step", step, 1000 * spent / step)


if __name__ == "__main__":
    main()
