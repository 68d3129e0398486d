"""Person re-identification embeddings with semi-hard triplets."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler


class Persons(Dataset):
    def __init__(self, n_ids, shots, seed):
        rng = np.random.default_rng(seed)
        base = rng.normal(0, 1, (n_ids, 3, 12, 6)).astype(np.float32)
        self.images, self.labels = [], []
        for pid in range(n_ids):
            for _ in range(shots):
                img = base[pid].repeat(4, axis=1).repeat(4, axis=2)
                img = np.roll(img, rng.integers(-4, 5), axis=2) * rng.uniform(0.6, 1.4)
                self.images.append(img + rng.normal(0, 0.8, img.shape).astype(np.float32))
                self.labels.append(pid)
        self.images = np.stack(self.images).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = torch.from_numpy(self.images[i])
        if random.random() < 0.5:
            x = x.flip(2)
        return x, self.labels[i]


class IdentitySampler(Sampler):
    """Yields batches of p identities with k shots each."""

    def __init__(self, labels, p, k, batches, seed):
        self.index = {}
        for i, pid in enumerate(labels):
            self.index.setdefault(pid, []).append(i)
        self.p, self.k, self.batches = p, k, batches
        self.rng = random.Random(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            chosen = self.rng.sample(sorted(self.index), self.p)
            yield [i for pid in chosen for i in self.rng.sample(self.index[pid], self.k)]


class ReIDNet(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        layers, c = [], 3
        for i in range(3):
            layers += [nn.Conv2d(c, width << i, 3, stride=2, padding=1, bias=False),
                       nn.BatchNorm2d(width << i), nn.ReLU(inplace=True)]
            c = width << i
        self.features = nn.Sequential(*layers)
        self.embed = nn.Linear(c, dim)

    def forward(self, x):
        return F.normalize(self.embed(self.features(x).mean((2, 3))), dim=1)


def semi_hard_triplet_loss(emb, labels, margin):
    dist = torch.cdist(emb, emb)
    losses = []
    for a in range(len(labels)):
        for p in range(len(labels)):
            if a == p or labels[a] != labels[p]:
                continue
            d_ap = dist[a, p]
            negatives = dist[a][labels != labels[a]]
            harder = negatives[negatives > d_ap]
            d_an = harder.min() if len(harder) else negatives.max()
            losses.append(F.relu(d_ap - d_an + margin))
    return torch.stack(losses).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", type=int, default=60)
    parser.add_argument("--shots", type=int, default=12)
    parser.add_argument("--p", type=int, default=16)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--margin", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=41)
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    dataset = Persons(args.ids, args.shots, args.seed)
    sampler = IdentitySampler(dataset.labels, args.p, args.k, args.batches, args.seed)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=args.workers,
                        multiprocessing_context="spawn", persistent_workers=True)
    model = ReIDNet(width=24, dim=64)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3, fused=True)
    start = time.time()
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in loader:
            loss = semi_hard_triplet_loss(model(x), y, args.margin)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} triplet loss {total / len(loader):.4f} ({time.time() - start:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
