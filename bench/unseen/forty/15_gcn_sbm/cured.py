"""Graph convolution on a stochastic block model, written without a graph library."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def block_graph(sizes, p_in, p_out, g):
    y = torch.cat([torch.full((s,), i) for i, s in enumerate(sizes)])
    same = y[:, None] == y[None, :]
    prob = torch.where(same, torch.tensor(p_in), torch.tensor(p_out))
    upper = torch.triu(torch.rand(prob.shape, generator=g) < prob, diagonal=1)
    adj = (upper | upper.T).float()
    return adj, y


class GraphConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout)

    def forward(self, x, a_hat):
        return a_hat @ self.lin(x)


class GCN(nn.Module):
    def __init__(self, n_features, hidden, n_classes, adj):
        super().__init__()
        self.conv1 = GraphConv(n_features, hidden)
        self.conv2 = GraphConv(hidden, hidden)
        self.conv3 = GraphConv(hidden, n_classes)
        self.register_buffer("a_hat", self.normalise(adj))

    def normalise(self, adj):
        a = adj + torch.eye(adj.size(0))
        d_inv_sqrt = torch.diag(a.sum(1).pow(-0.5))
        return d_inv_sqrt @ a @ d_inv_sqrt

    def forward(self, x):
        a_hat = self.a_hat
        x = F.dropout(F.relu(self.conv1(x, a_hat)), 0.3, self.training)
        x = F.dropout(F.relu(self.conv2(x, a_hat)), 0.3, self.training)
        return self.conv3(x, a_hat)


def main():
    torch.manual_seed(31)
    g = torch.Generator().manual_seed(31)
    adj, y = block_graph([140, 140, 140, 140, 140], 0.06, 0.02, g)
    n = len(y)
    x = torch.randn(n, 128, generator=g) + 0.15 * F.one_hot(y, 128)
    train_mask = torch.rand(n, generator=g) < 0.4
    model = GCN(128, 384, 5, adj)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(900):
        model.train()
        out = model(x)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 50 == 0:
            model.eval()
            with torch.no_grad():
                acc = (model(x).argmax(1) == y)[~train_mask].float().mean()
            print(f"epoch {epoch:03d} loss {loss.item():.4f} held-out acc {acc:.3f}")


if __name__ == "__main__":
    main()
