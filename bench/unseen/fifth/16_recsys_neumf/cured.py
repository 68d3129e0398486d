"""Neural matrix factorisation on implicit feedback."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=40_000)
    p.add_argument("--items", type=int, default=15_000)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--interactions", type=int, default=400_000)
    p.add_argument("--batch-size", type=int, default=2048)
    p.add_argument("--negatives", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def interactions(a):
    """Users and items live in taste clusters; popularity is heavy-tailed."""
    rng = np.random.default_rng(a.seed)
    clusters = 25
    user_taste = rng.integers(0, clusters, a.users)
    u = rng.integers(0, a.users, a.interactions)
    rank = np.floor(a.items / clusters * rng.power(0.5, a.interactions)).astype(np.int64)
    taste = np.where(rng.random(a.interactions) < 0.8, user_taste[u], rng.integers(0, clusters, a.interactions))
    i = np.minimum(rank * clusters + taste, a.items - 1)
    return torch.from_numpy(u), torch.from_numpy(i)


class NeuMF(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.item = nn.Embedding(items, dim, sparse=True)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.out = nn.Linear(dim + 16, 1)
        for e in (self.user, self.item):
            nn.init.normal_(e.weight, std=0.05)

    def forward(self, u, i):
        eu, ei = self.user(u), self.item(i)
        h = self.mlp(torch.cat([eu, ei], dim=-1))
        return self.out(torch.cat([eu * ei, h], dim=-1)).squeeze(-1)


def make_optimizers(model, lr):
    tables = [model.user.weight, model.item.weight]
    return [torch.optim.SparseAdam(tables, lr=lr),
            torch.optim.Adam([*model.mlp.parameters(), *model.out.parameters()], lr=lr)]


@torch.no_grad()
def hit_rate(model, users, items, n_items, k=10, candidates=100):
    u = users[:, None].expand(-1, candidates)
    c = torch.randint(0, n_items, (len(users), candidates))
    c[:, 0] = items
    scores = model(u.reshape(-1), c.reshape(-1)).view(-1, candidates)
    return ((scores > scores[:, :1]).sum(1) < k).float().mean().item()


def main():
    a = parse()
    torch.manual_seed(a.seed)
    users, items = interactions(a)
    order = torch.randperm(len(users))
    test, train = order[:1000], order[1000:]
    model = NeuMF(a.users, a.items, a.dim)
    optimizers = make_optimizers(model, a.lr)
    print(f"{len(train)} interactions, {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters")

    pos_share = 1 + a.negatives
    targets = torch.zeros(a.batch_size, pos_share)
    targets[:, 0] = 1
    perm, cursor = train[torch.randperm(len(train))], 0
    running, t0 = torch.zeros(()), time.time()
    for step in range(1, a.steps + 1):
        if cursor + a.batch_size > len(perm):
            perm, cursor = train[torch.randperm(len(train))], 0
        rows = perm[cursor:cursor + a.batch_size]
        cursor += a.batch_size
        u = users[rows][:, None].expand(-1, pos_share)
        i = torch.randint(0, a.items, (a.batch_size, pos_share))
        i[:, 0] = items[rows]

        loss = F.binary_cross_entropy_with_logits(model(u, i), targets)
        for opt in optimizers:
            opt.zero_grad()
        loss.backward()
        for opt in optimizers:
            opt.step()
        running += loss.detach()

        if step % 100 == 0:
            hr = hit_rate(model, users[test], items[test], a.items)
            print(f"step {step} loss {running.item() / 100:.4f} HR@10 {hr:.3f} "
                  f"{step * a.batch_size / (time.time() - t0):.0f} positives/s", flush=True)
            running.zero_()


if __name__ == "__main__":
    main()
