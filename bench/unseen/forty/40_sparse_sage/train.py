"""Full-batch GraphSAGE on a synthetic citation graph with a fixed sparse neighbour operator."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.sparse import coo_matrix, diags

NODES, CLASSES, FEATURES, EPOCHS = 3000, 7, 160, 1400


def citation_graph(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, NODES)
    by_class = [np.flatnonzero(y == c) for c in range(CLASSES)]
    src = rng.integers(0, NODES, 6 * NODES)
    dst = np.where(rng.random(len(src)) < 0.7,
                   [by_class[y[s]][k % len(by_class[y[s]])] for s, k in zip(src, rng.integers(0, NODES, len(src)))],
                   rng.integers(0, NODES, len(src)))
    a = coo_matrix((np.ones(len(src), np.float32), (src, dst)), shape=(NODES, NODES))
    a = ((a + a.T) > 0).astype(np.float32)
    mean = (diags(1 / np.maximum(np.asarray(a.sum(1)).ravel(), 1)) @ a).tocsr()
    op = torch.sparse_csr_tensor(torch.from_numpy(mean.indptr.astype(np.int64)),
                                 torch.from_numpy(mean.indices.astype(np.int64)),
                                 torch.from_numpy(mean.data.astype(np.float32)), size=mean.shape)
    x = rng.normal(size=(NODES, FEATURES)).astype(np.float32)
    x[np.arange(NODES), y] += 1.0
    return op, torch.from_numpy(x), torch.from_numpy(y)


class Sage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own, self.near = nn.Linear(cin, cout), nn.Linear(cin, cout, bias=False)

    def forward(self, x, near):
        return self.own(x) + self.near(near)


class Net(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.l1, self.l2, self.out = Sage(FEATURES, hidden), Sage(hidden, hidden), nn.Linear(hidden, CLASSES)

    def forward(self, x, op, op_t):
        h = F.relu(self.l1(x, self.near0))
        h = F.dropout(h, 0.4, self.training)
        h = F.relu(self.l2(h, Propagate.apply(h, op, op_t)))
        return self.out(h)

    def set_input(self, near):
        self.near0 = near  # the features do not change, nor do their neighbour means


class Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, op, op_t):
        ctx.op_t = op_t
        return op @ h

    @staticmethod
    def backward(ctx, grad):
        return ctx.op_t @ grad, None, None


def main():
    torch.manual_seed(61)
    op, x, y = citation_graph(61)
    op_t = op.to_sparse_coo().t().to_sparse_csr()
    train = torch.rand(NODES) < 0.3
    model = Net()
    model.set_input(op @ x)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=5e-4)
    for epoch in range(EPOCHS):
        model.train()
        loss = F.cross_entropy(model(x, op, op_t)[train], y[train])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if epoch % 100 == 0:
            model.eval()
            with torch.no_grad():
                hits = (model(x, op, op_t).argmax(1) == y)[~train]
            print(f"epoch {epoch} loss {loss.item():.4f} held-out acc {hits.float().mean():.3f}")


if __name__ == "__main__":
    main()
