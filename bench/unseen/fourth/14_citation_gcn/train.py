import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def citation_graph(n_nodes, n_classes, n_words, seed):
    """Random citation network: papers of one field cite each other more often and share words."""
    rng = np.random.default_rng(seed)
    field = rng.integers(0, n_classes, n_nodes)
    same = field[:, None] == field[None, :]
    prob = np.where(same, 0.008, 0.0012)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < prob, k=1)
    adj = (upper | upper.T).astype(np.float32)
    topic = rng.random((n_classes, n_words)) < 0.05
    word_prob = np.where(topic[field], 0.06, 0.012)
    words = (rng.random((n_nodes, n_words)) < word_prob).astype(np.float32)
    words /= np.maximum(words.sum(1, keepdims=True), 1.0)
    return torch.from_numpy(adj), torch.from_numpy(words), torch.from_numpy(field)


class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return adj @ (x @ self.weight) + self.bias


def normalize_adj(adj):
    # symmetric normalisation with self loops (Kipf & Welling)
    a_hat = adj + torch.eye(adj.size(0))
    d_inv_sqrt = torch.diag(a_hat.sum(1).pow(-0.5))
    return d_inv_sqrt @ a_hat @ d_inv_sqrt


class GCN(nn.Module):
    def __init__(self, n_feat, n_hidden, n_classes, n_layers=3, dropout=0.5):
        super().__init__()
        sizes = [n_feat] + [n_hidden] * (n_layers - 1) + [n_classes]
        self.layers = nn.ModuleList(GraphConv(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.dropout = dropout

    def forward(self, x, adj):
        adj = normalize_adj(adj)
        for i, layer in enumerate(self.layers):
            x = F.dropout(x, self.dropout, self.training)
            x = layer(x, adj)
            if i < len(self.layers) - 1:
                x = F.relu(x)
        return x


def accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


def main():
    p = argparse.ArgumentParser(description="semi-supervised node classification")
    p.add_argument("--nodes", type=int, default=1300)
    p.add_argument("--classes", type=int, default=6)
    p.add_argument("--words", type=int, default=600)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--epochs", type=int, default=120)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--weight-decay", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    adj, feats, labels = citation_graph(args.nodes, args.classes, args.words, args.seed)
    perm = torch.randperm(args.nodes)
    train_idx, val_idx, test_idx = perm[:300], perm[300:600], perm[600:]
    print(f"{args.nodes} papers, {int(adj.sum()) // 2} citations, {len(train_idx)} labelled")

    model = GCN(args.words, args.hidden, args.classes)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)

    best_val, best_state = 0.0, None
    t0 = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        model.train()
        opt.zero_grad()
        logits = model(feats, adj)
        loss = F.cross_entropy(logits[train_idx], labels[train_idx])
        loss.backward()
        opt.step()

        model.eval()
        with torch.no_grad():
            logits = model(feats, adj)
        val_acc = accuracy(logits[val_idx], labels[val_idx])
        if val_acc > best_val:
            best_val = val_acc
            best_state = {k: v.clone() for k, v in model.state_dict().items()}

        if epoch % 20 == 0:
            speed = epoch / (time.perf_counter() - t0)
            print(f"epoch {epoch:4d}  loss {loss.item():.4f}  val acc {val_acc:.3f}  ({speed:.1f} epochs/s)")

    model.load_state_dict(best_state)
    model.eval()
    with torch.no_grad():
        test_acc = accuracy(model(feats, adj)[test_idx], labels[test_idx])
    print(f"best val {best_val:.3f}, test {test_acc:.3f}")


if __name__ == "__main__":
    main()
