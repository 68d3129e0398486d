"""Which pipe junctions will leak? Semi-supervised graph convolutions on a town's water network.

The town is one graph; a few inspected junctions carry labels, and the network is trained on all of it at once.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.spatial import cKDTree

GRADES = 4          # dry, weeping, leaking, burst


def build_town(n, neighbours, feats, surveys, seed):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, 1, (40, 2))
    pos = centres[rng.integers(0, 40, n)] + rng.normal(0, 0.06, (n, 2))
    _, nb = cKDTree(pos).query(pos, k=neighbours + 1)
    src = np.repeat(np.arange(n), neighbours)
    dst = nb[:, 1:].ravel()
    # every survey lists the pipes again, from both ends and in an order of its own
    diameter = rng.uniform(0.5, 1.5, len(src)).astype(np.float32)
    walk = np.concatenate([rng.permutation(len(src)) for _ in range(surveys)])
    src, dst, diameter = src[walk], dst[walk], diameter[walk] / surveys
    edges = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])
    risk = np.sin(7 * pos[:, 0]) + np.cos(6 * pos[:, 1]) + 0.25 * rng.standard_normal(n)
    grade = np.digitize(risk, np.quantile(risk, [0.4, 0.7, 0.9]))
    x = rng.standard_normal((n, feats)).astype(np.float32)
    x[:, 0] += 0.8 * risk
    x[:, 1] += 0.5 * (grade > 1)
    order = rng.permutation(n)
    return (torch.from_numpy(x), torch.from_numpy(edges), torch.from_numpy(np.concatenate([diameter, diameter])),
            torch.from_numpy(grade), torch.from_numpy(order))


def normalise(edges, weight, n):
    """Merge pipes listed repeatedly, add self loops and scale both sides by the square root of the degree."""
    loops = torch.arange(n)
    row = torch.cat([edges[0], loops])
    col = torch.cat([edges[1], loops])
    weight = torch.cat([weight, torch.ones(n)])
    key, inverse = torch.unique(row * n + col, return_inverse=True)
    weight = torch.zeros(len(key)).index_add_(0, inverse, weight)
    row, col = key // n, key % n
    degree = torch.zeros(n).index_add_(0, row, weight)
    scale = degree.clamp(min=1e-12).rsqrt()
    return row, col, scale[row] * weight * scale[col]


class GraphConv(nn.Module):
    def __init__(self, fan_in, fan_out, cached=False, bias=True):
        super().__init__()
        self.lin = nn.Linear(fan_in, fan_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(fan_out)) if bias else None
        self.cached = cached
        self._norm = None
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, x, edges, weight):
        norm = self._norm
        if norm is None:
            norm = normalise(edges, weight, len(x))
            if self.cached:
                self._norm = norm
        row, col, w = norm
        h = self.lin(x)
        out = torch.zeros_like(h).index_add(0, row, h.index_select(0, col) * w.unsqueeze(1))
        return out if self.bias is None else out + self.bias


class LeakNet(nn.Module):
    def __init__(self, feats, hidden, layers, classes, dropout):
        super().__init__()
        self.inp = nn.Linear(feats, hidden)
        self.convs = nn.ModuleList(GraphConv(hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.out = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, x, edges, weight):
        h = F.relu(self.inp(x))
        for conv, norm in zip(self.convs, self.norms):
            h = h + F.dropout(F.relu(norm(conv(h, edges, weight))), self.dropout, self.training)
        return self.out(h)


@torch.no_grad()
def accuracy(model, graph, grade, masks):
    model.eval()
    pred = model(*graph).argmax(1)
    return [(pred[m] == grade[m]).float().mean().item() for m in masks]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--junctions", type=int, default=12000)
    p.add_argument("--neighbours", type=int, default=6)
    p.add_argument("--surveys", type=int, default=3)
    p.add_argument("--feats", type=int, default=24)
    p.add_argument("--hidden", type=int, default=24)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--dropout", type=float, default=0.3)
    p.add_argument("--epochs", type=int, default=400)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--weight-decay", type=float, default=5e-4)
    p.add_argument("--inspected", type=float, default=0.1)
    p.add_argument("--eval-every", type=int, default=20)
    p.add_argument("--seed", type=int, default=42)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    x, edges, weight, grade, order = build_town(args.junctions, args.neighbours, args.feats, args.surveys, args.seed)
    a = int(args.inspected * len(order))
    train_idx, val_idx, test_idx = order[:a], order[a:2 * a], order[2 * a:]
    print(f"{len(x)} junctions, {edges.shape[1]} listed pipes, {len(train_idx)} inspected")

    model = LeakNet(args.feats, args.hidden, args.layers, GRADES, args.dropout)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    graph = (x, edges, weight)
    best_val = best_test = 0.0
    start = time.time()
    for epoch in range(1, args.epochs + 1):
        model.train()
        opt.zero_grad()
        loss = F.cross_entropy(model(*graph)[train_idx], grade[train_idx])
        loss.backward()
        opt.step()
        if epoch % args.eval_every == 0 or epoch == 1:
            tr, va, te = accuracy(model, graph, grade, (train_idx, val_idx, test_idx))
            if va > best_val:
                best_val, best_test = va, te
            print(f"epoch {epoch:4d} loss {loss.item():.5f} train {tr:.3f} val {va:.3f} test {te:.3f} "
                  f"{time.time() - start:.1f}s", flush=True)
    print(f"best val {best_val:.3f}, test there {best_test:.3f}")


if __name__ == "__main__":
    main()
