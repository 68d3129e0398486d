#!/usr/bin/env python
"""Node classification on a synthetic citation graph; graph convolutions written by hand."""
import argparse
import json
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(nodes, degree, classes, features, seed):
    gen = torch.Generator().manual_seed(seed)
    label = torch.randint(classes, (nodes,), generator=gen)
    src = torch.randint(nodes, (nodes * degree,), generator=gen)
    dst = torch.randint(nodes, (nodes * degree,), generator=gen)
    same = label[src] == label[dst]
    keep = same | (torch.rand(len(src), generator=gen) < 0.25)
    src, dst = src[keep], dst[keep]
    centre = torch.randn(classes, features, generator=gen)
    x = 0.25 * centre[label] + torch.randn(nodes, features, generator=gen)
    return x, label, src, dst


def normalised_adjacency(src, dst, nodes):
    """Symmetric D^-1/2 (A + A' + I) D^-1/2 in CSR form."""
    loop = torch.arange(nodes)
    row = torch.cat([src, dst, loop])
    col = torch.cat([dst, src, loop])
    adj = torch.sparse_coo_tensor(torch.stack([row, col]), torch.ones(len(row)), (nodes, nodes)).coalesce()
    row, col = adj.indices()
    deg = torch.zeros(nodes).index_add_(0, row, adj.values())
    val = adj.values() * deg[row].rsqrt() * deg[col].rsqrt()
    return torch.sparse_coo_tensor(adj.indices(), val, (nodes, nodes)).coalesce().to_sparse_csr()


class Propagate(torch.autograd.Function):
    """A @ h for a constant symmetric A: the gradient is A @ g."""

    @staticmethod
    def forward(ctx, adj, h):
        ctx.adj = adj
        return adj @ h

    @staticmethod
    def backward(ctx, g):
        return None, ctx.adj @ g.contiguous()


class GraphConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own = nn.Linear(cin, cout)
        self.around = nn.Linear(cin, cout, bias=False)

    def forward(self, adj, h):
        return self.own(h) + Propagate.apply(adj, self.around(h))


class GCN(nn.Module):
    def __init__(self, features, hidden, classes, layers=3, dropout=0.4):
        super().__init__()
        dims = [features] + [hidden] * (layers - 1) + [classes]
        self.convs = nn.ModuleList([GraphConv(a, b) for a, b in zip(dims, dims[1:])])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for d in dims[1:-1]])
        self.dropout = dropout

    def forward(self, adj, h):
        for conv, norm in zip(self.convs, self.norms):
            h = F.relu(norm(conv(adj, h)))
            h = F.dropout(h, self.dropout, self.training)
        return self.convs[-1](adj, h)


def split(nodes, seed):
    perm = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    a, b = int(0.5 * nodes), int(0.7 * nodes)
    return perm[:a], perm[a:b], perm[b:]


@torch.no_grad()
def accuracy(model, adj, x, y, parts):
    model.eval()
    guess = model(adj, x).argmax(1)
    model.train()
    return [(guess[p] == y[p]).float().mean().item() for p in parts]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--nodes", type=int, default=12000)
    p.add_argument("--degree", type=int, default=12)
    p.add_argument("--classes", type=int, default=8)
    p.add_argument("--features", type=int, default=128)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--epochs", type=int, default=120)
    p.add_argument("--eval-every", type=int, default=20)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--wd", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    x, y, src, dst = make_graph(args.nodes, args.degree, args.classes, args.features, args.seed)
    adj = normalised_adjacency(src, dst, args.nodes)
    train, val, test = split(args.nodes, args.seed)
    model = GCN(args.features, args.hidden, args.classes)
    optim = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.wd)
    best, history = 0.0, []
    with tempfile.TemporaryDirectory() as tmp:
        ckpt = os.path.join(tmp, "best.pt")
        for epoch in range(1, args.epochs + 1):
            t0 = time.time()
            optim.zero_grad()
            loss = F.cross_entropy(model(adj, x)[train], y[train])
            loss.backward()
            optim.step()
            if epoch % args.eval_every == 0:
                acc_val, acc_test = accuracy(model, adj, x, y, (val, test))
                history.append({"epoch": epoch, "loss": round(loss.item(), 4), "val": round(acc_val, 4),
                                "test": round(acc_test, 4), "s": round(time.time() - t0, 3)})
                print(json.dumps(history[-1]), flush=True)
                if acc_val > best:
                    best = acc_val
                    torch.save(model.state_dict(), ckpt)
    print("best val accuracy", round(best, 4))


if __name__ == "__main__":
    main()
