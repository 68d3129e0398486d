"""Semi-supervised node classification with a graph convolutional network written by hand."""
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

NODES, FEATS, HIDDEN, CLASSES = 900, 500, 192, 7
EPOCHS = 400


def citation_graph(seed=5):
    """Stochastic block model with bag-of-words features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, NODES)
    same = y[:, None] == y[None, :]
    upper = np.triu(rng.random((NODES, NODES)) < np.where(same, 0.02, 0.0012), 1)
    adj = (upper | upper.T).astype(np.float32)
    topics = rng.dirichlet(np.full(FEATS, 0.05), CLASSES)
    mix = 0.35 * topics[y] + 0.65 / FEATS
    x = np.stack([rng.multinomial(40, m / m.sum()) for m in mix]).astype(np.float32)
    x /= np.maximum(x.sum(1, keepdims=True), 1)
    return torch.from_numpy(adj), torch.from_numpy(x), torch.from_numpy(y)


class GraphConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(cin, cout))
        self.bias = nn.Parameter(torch.zeros(cout))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, a_hat):
        return a_hat @ (x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, adj):
        super().__init__()
        self.register_buffer("adj", adj)
        self.convs = nn.ModuleList(
            [GraphConv(FEATS, HIDDEN), GraphConv(HIDDEN, HIDDEN), GraphConv(HIDDEN, HIDDEN)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(HIDDEN) for _ in range(3)])
        self.out = nn.Linear(HIDDEN, CLASSES)

    def normalised_adjacency(self):
        a = self.adj + torch.eye(len(self.adj))
        d_inv_sqrt = torch.diag(a.sum(1).pow(-0.5))
        return d_inv_sqrt @ a @ d_inv_sqrt

    def forward(self, x):
        a_hat = self.normalised_adjacency()
        h = F.dropout(x, 0.4, self.training)
        for conv, norm in zip(self.convs, self.norms):
            h = F.dropout(F.relu(norm(conv(h, a_hat))), 0.4, self.training)
        return self.out(h)


def split(y, per_class=20, seed=0):
    g = torch.Generator().manual_seed(seed)
    train = []
    for c in range(CLASSES):
        members = (y == c).nonzero().flatten()
        train.append(members[torch.randperm(len(members), generator=g)[:per_class]])
    train = torch.cat(train)
    rest = torch.ones(len(y), dtype=torch.bool)
    rest[train] = False
    rest = rest.nonzero().flatten()
    return train, rest[:300], rest[300:]


def main():
    torch.manual_seed(0)
    adj, x, y = citation_graph()
    idx_train, idx_val, idx_test = split(y)
    print(f"{NODES} nodes, {int(adj.sum()) // 2} edges, {len(idx_train)} labelled")
    model = GCN(adj)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    best, best_epoch = 0.0, 0
    t0 = time.time()
    for epoch in range(1, EPOCHS + 1):
        model.train()
        opt.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits[idx_train], y[idx_train])
        loss.backward()
        opt.step()

        if epoch % 25 == 0:
            model.eval()
            with torch.no_grad():
                pred = model(x).argmax(1)
            acc = (pred[idx_val] == y[idx_val]).float().mean().item()
            if acc > best:
                best, best_epoch = acc, epoch
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val acc {acc:.3f} "
                  f"{(time.time() - t0) / epoch * 1e3:.0f} ms/epoch", flush=True)

    model.eval()
    with torch.no_grad():
        test = (model(x).argmax(1)[idx_test] == y[idx_test]).float().mean().item()
    print(f"best val {best:.3f} at {best_epoch}, test {test:.3f}")


if __name__ == "__main__":
    main()
