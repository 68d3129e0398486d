"""Skip-gram embeddings of street crossings from random walks (node2vec style)."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def build_city(side, rng):
    """A grid of crossings with some streets removed and a few diagonal avenues."""
    n = side * side
    ids = np.arange(n).reshape(side, side)
    right = np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()])
    down = np.stack([ids[:-1].ravel(), ids[1:].ravel()])
    diag = np.stack([ids[:-1, :-1].ravel(), ids[1:, 1:].ravel()])
    diag = diag[:, rng.random(diag.shape[1]) < 0.08]
    edges = np.concatenate([right, down, diag], axis=1)
    edges = edges[:, rng.random(edges.shape[1]) < 0.93]
    both = np.concatenate([edges, edges[::-1]], axis=1)
    order = np.argsort(both[0], kind="stable")
    src, dst = both[0][order], both[1][order]
    start = np.searchsorted(src, np.arange(n + 1))
    return start, dst


def random_walks(start, dst, count, length, rng):
    degree = np.diff(start)
    alive = np.flatnonzero(degree > 0)
    walks = np.empty((count, length), dtype=np.int64)
    walks[:, 0] = rng.choice(alive, size=count)
    for t in range(1, length):
        here = walks[:, t - 1]
        walks[:, t] = dst[start[here] + (rng.random(count) * degree[here]).astype(np.int64)]
    return walks


class SkipGram(nn.Module):
    def __init__(self, nodes, dim):
        super().__init__()
        self.centre = nn.Embedding(nodes, dim, sparse=True, max_norm=1.0)
        self.context = nn.Embedding(nodes, dim, sparse=True)
        nn.init.uniform_(self.centre.weight, -0.5, 0.5)
        nn.init.zeros_(self.context.weight)
        self.scale = 5.0

    def forward(self, centre, targets):
        c = self.centre(centre)                      # (W, L, D)
        t = self.context(targets)                    # (W, L, K, D)
        return self.scale * torch.einsum("wld,wlkd->wlk", c, t)


def windows(walks, window):
    """Offsets of the context around each inner position of a walk."""
    length = walks.shape[1]
    inner = torch.arange(window, length - window)
    shift = torch.tensor([o for o in range(-window, window + 1) if o != 0])
    return walks[:, inner], walks[:, inner[:, None] + shift[None, :]]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1250)
    ap.add_argument("--side", type=int, default=260)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--walks-per-batch", type=int, default=320)
    ap.add_argument("--window", type=int, default=1)
    ap.add_argument("--negatives", type=int, default=2)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    start, dst = build_city(args.side, rng)
    nodes = args.side ** 2
    walks = torch.from_numpy(random_walks(start, dst, 60_000, 24, rng))
    print(f"{nodes} crossings, {len(dst)} street ends, {len(walks)} walks")

    # alias-free negative sampling: a table of node ids drawn once with p ~ freq ** 0.75
    freq = np.bincount(walks.numpy().ravel(), minlength=nodes) ** 0.75
    table = torch.from_numpy(rng.choice(nodes, size=1_000_000, p=freq / freq.sum()))

    model = SkipGram(nodes, args.dim)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=args.steps)

    running, t0 = 0.0, time.time()
    for step in range(1, args.steps + 1):
        batch = walks[torch.randint(len(walks), (args.walks_per_batch,))]
        centre, positive = windows(batch, args.window)
        draw = torch.randint(len(table), (*centre.shape, args.negatives))
        targets = torch.cat([positive, table[draw]], dim=-1)

        logits = model(centre, targets)
        pos = F.logsigmoid(logits[..., : positive.shape[-1]]).sum()
        neg = F.logsigmoid(-logits[..., positive.shape[-1]:]).sum()
        loss = -(pos + neg)

        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()

        running += loss.item() / centre.numel()
        if step % 100 == 0:
            print(f"step {step:5d}  loss {running / 100:.4f}  "
                  f"{1000 * (time.time() - t0) / step:.1f} ms/step")
            running = 0.0

    with torch.no_grad():
        w = F.normalize(model.centre.weight, dim=1)
        probe = torch.randint(nodes, (5,))
        near = (w[probe] @ w.T).topk(4, dim=1).indices[:, 1:]
        for p, q in zip(probe.tolist(), near.tolist()):
            print("crossing", divmod(p, args.side), "->", [divmod(i, args.side) for i in q])


if __name__ == "__main__":
    main()
