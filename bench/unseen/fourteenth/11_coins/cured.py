"""Die linking of ancient coins: an embedding in which coins struck from the same obverse die lie together.

Supervised contrastive loss over batches of P dies x K coins; retrieval (recall@1) on held-out dies now and then.
"""
import argparse
import logging
import math
import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

log = logging.getLogger("coins")
MINTS = ["Rome", "Antioch", "Lugdunum", "Alexandria", "Siscia", "Cyzicus"]


def strike_hoard(n_dies, n_coins, size, seed):
    """A catalogue (one row per coin) and the photographs, as grey images."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size] / (size - 1) * 2 - 1
    disc = (xx ** 2 + yy ** 2 < 0.92).astype(np.float32)
    freq = rng.normal(0, 3.0, (n_dies, 6, 2))
    phase = rng.uniform(0, 2 * math.pi, (n_dies, 6))
    waves = freq[..., 0, None, None] * xx + freq[..., 1, None, None] * yy + phase[..., None, None]
    dies = np.cos(waves).mean(1).astype(np.float32)

    weights = rng.gamma(4.0, 1.0, n_dies)
    which = np.concatenate([np.repeat(np.arange(n_dies), 8), rng.choice(n_dies, n_coins - 8 * n_dies, p=weights / weights.sum())])
    which = rng.permutation(which)
    images = torch.from_numpy(dies)[torch.from_numpy(which)]
    wear = torch.from_numpy(rng.uniform(0.4, 1.0, (n_coins, 1, 1)).astype(np.float32))
    g = torch.Generator().manual_seed(seed)
    images = (images * wear + 0.25 * torch.randn(images.shape, generator=g)) * torch.from_numpy(disc)
    images = ((images.clamp(-1.5, 1.5) + 1.5) * 85).to(torch.uint8)
    mints = rng.integers(0, len(MINTS), n_dies)
    catalogue = pd.DataFrame({
        "coin": np.arange(n_coins),
        "die": [f"{MINTS[mints[d]]}/O{d:04d}" for d in which],
        "mint": [MINTS[mints[d]] for d in which],
        "weight_g": rng.normal(3.4, 0.3, n_coins).round(2),
    })
    return catalogue, images


class CoinPhotos(Dataset):
    def __init__(self, catalogue, images):
        self.images = images[torch.from_numpy(catalogue["coin"].to_numpy().copy())]
        self.codes = torch.from_numpy(pd.factorize(catalogue["die"])[0])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.codes[i]


class DieSampler(Sampler):
    """Batches of `dies` different dies with `coins` photographs of each."""

    def __init__(self, catalogue, dies, coins, batches, seed=0):
        self.catalogue = catalogue.reset_index(drop=True)
        self.dies, self.coins, self.batches = dies, coins, batches
        self.names = self.catalogue["die"].unique()
        self.rows = {name: rows.to_numpy() for name, rows in self.catalogue.groupby("die").groups.items()}
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            batch = []
            for name in self.rng.choice(self.names, self.dies, replace=False):
                rows = self.rows[name]
                batch.extend(rows[self.rng.permutation(len(rows))[:self.coins]])
            yield batch


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across = nn.Sequential(nn.Linear(tokens, tokens), nn.GELU(), nn.Linear(tokens, tokens))
        self.within = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.n2(x))


class DieNet(nn.Module):
    def __init__(self, size, patch=5, dim=72, depth=2, out=64):
        super().__init__()
        tokens = (size // patch) ** 2
        self.stem = nn.Conv2d(1, dim, patch, stride=patch)
        self.blocks = nn.Sequential(*[MixerBlock(tokens, dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, out)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return F.normalize(self.head(self.norm(self.blocks(x)).mean(1)), dim=-1)


def develop(images, train):
    x = images.float().div_(127.5).sub_(1).unsqueeze(1)
    if train:
        gain = 1 + 0.2 * torch.randn(len(x), 1, 1, 1)
        x = x * gain + 0.1 * torch.randn_like(x)
    return x


def supcon(z, die, temperature):
    sim = z @ z.T / temperature
    eye = torch.eye(len(z), dtype=torch.bool)
    sim = sim.masked_fill(eye, -1e9)
    same = (die[:, None] == die[None]) & ~eye
    logp = sim - sim.logsumexp(1, keepdim=True)
    return -(logp * same).sum(1).div(same.sum(1).clamp(min=1)).mean()


@torch.inference_mode()
def recall_at_1(model, images, codes):
    model.eval()
    z = torch.cat([model(develop(chunk, False)) for chunk in images.split(256)])
    sim = z @ z.T
    sim.fill_diagonal_(-2)
    model.train()
    return (codes[sim.argmax(1)] == codes).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--coins", type=int, default=48000)
    p.add_argument("--dies", type=int, default=1200)
    p.add_argument("--size", type=int, default=30)
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--batches", type=int, default=180)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--temperature", type=float, default=0.1)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(3)

    catalogue, images = strike_hoard(args.dies, args.coins, args.size, seed=3)
    held = set(catalogue["die"].unique()[:60])
    mask = catalogue["die"].isin(held)
    train_set = CoinPhotos(catalogue[~mask], images)
    probe = CoinPhotos(catalogue[mask].iloc[:800], images)
    sampler = DieSampler(catalogue[~mask], dies=20, coins=4, batches=args.batches)
    loader = DataLoader(train_set, batch_sampler=sampler)

    model = DieNet(args.size)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * args.batches)
    for epoch in range(args.epochs):
        start, total = time.time(), 0.0
        for step, (photos, die) in enumerate(loader):
            loss = supcon(model(develop(photos, True)), die, args.temperature)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
            if step % 40 == 0:
                log.info("epoch %d step %d loss %.3f", epoch, step, loss.item())
        r1 = recall_at_1(model, probe.images, probe.codes)
        log.info("epoch %d mean loss %.3f recall@1 %.3f (%.1f s)", epoch, total / len(loader), r1, time.time() - start)
    torch.save(model.state_dict(), "/tmp/dienet.pt")


if __name__ == "__main__":
    main()
