"""Flags mule accounts in a payment ledger with a GraphSAGE-style network on clustered account batches."""
import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_ledger(n_accounts, n_payments, n_branches, seed):
    """Accounts belong to branches; most payments stay inside a branch, mules fan in and pass on."""
    rng = np.random.default_rng(seed)
    branch = np.sort(rng.integers(0, n_branches, n_accounts))
    bounds = np.searchsorted(branch, np.arange(n_branches + 1))
    mule = rng.random(n_accounts) < 0.06
    src = rng.integers(0, n_accounts, n_payments)
    lo, hi = bounds[branch[src]], bounds[branch[src] + 1]
    dst = lo + (rng.random(n_payments) * (hi - lo)).astype(np.int64)
    away = rng.random(n_payments) < 0.15
    dst[away] = rng.integers(0, n_accounts, away.sum())
    amount = rng.lognormal(3.5, 1.0, n_payments).astype(np.float32)
    amount[mule[dst]] *= rng.uniform(1.0, 2.2, mule[dst].sum()).astype(np.float32)
    hour = rng.normal(13, 4, n_payments).astype(np.float32)
    hour[mule[src]] += rng.normal(1.5, 2, mule[src].sum()).astype(np.float32)
    x = rng.normal(size=(n_accounts, 24)).astype(np.float32)
    x[:, 0] += 0.5 * mule
    x[:, 1] -= 0.4 * mule
    edge_attr = np.stack([np.log1p(amount) - 3.5, (hour - 13) / 4, np.log1p(amount) * (hour - 13) / 12], axis=1)
    return {
        "x": torch.from_numpy(x),
        "y": torch.from_numpy(mule.astype(np.float32)),
        "branch": torch.from_numpy(branch),
        "edge_index": torch.from_numpy(np.stack([src, dst])),
        "edge_attr": torch.from_numpy(edge_attr.astype(np.float32)),
    }


class BranchBatches:
    """Yields the subgraph spanned by a random handful of branches (Cluster-GCN batching)."""

    def __init__(self, ledger, branches, per_batch, shuffle=True):
        self.x, self.y = ledger["x"], ledger["y"]
        self.branch = ledger["branch"]
        self.edge_index, self.edge_attr = ledger["edge_index"], ledger["edge_attr"]
        by_branch = self.branch[self.edge_index[0]]
        self.edge_order = by_branch.argsort(stable=True)
        self.branches, self.per_batch, self.shuffle = branches, per_batch, shuffle
        n = int(self.branch.max()) + 2
        self.bounds = torch.searchsorted(self.branch, torch.arange(n)).tolist()
        self.edge_bounds = torch.searchsorted(by_branch[self.edge_order], torch.arange(n)).tolist()

    def __len__(self):
        return len(self.branches) // self.per_batch

    def members(self, chosen):
        return torch.cat([torch.arange(self.bounds[b], self.bounds[b + 1]) for b in chosen])

    def subgraph(self, nodes, chosen):
        edges = torch.cat([self.edge_order[self.edge_bounds[b]:self.edge_bounds[b + 1]] for b in chosen]).sort().values
        edge_index = self.edge_index[:, edges]
        inside = torch.zeros(len(self.x), dtype=torch.bool)
        inside[nodes] = True
        keep = inside[edge_index[1]]
        local = torch.empty(len(self.x), dtype=torch.long)
        local[nodes] = torch.arange(len(nodes))
        return local[edge_index[:, keep]], self.edge_attr[edges[keep]]

    def __iter__(self):
        order = self.branches[torch.randperm(len(self.branches))] if self.shuffle else self.branches
        for i in range(len(self)):
            chosen = order[i * self.per_batch:(i + 1) * self.per_batch].sort().values.tolist()
            nodes = self.members(chosen)
            edge_index, edge_attr = self.subgraph(nodes, chosen)
            yield self.x[nodes], edge_index, edge_attr, self.y[nodes]


class PaymentConv(nn.Module):
    """Mean of gated messages along payments in both directions plus a root term."""

    def __init__(self, d_in, d_out, d_edge):
        super().__init__()
        self.root = nn.Linear(d_in, d_out)
        self.fwd = nn.Linear(d_in, d_out, bias=False)
        self.bwd = nn.Linear(d_in, d_out, bias=False)
        self.gate = nn.Linear(d_edge, d_out)
        self.norm = nn.LayerNorm(d_out)

    @staticmethod
    def mean(messages, index, n):
        total = messages.new_zeros(n, messages.size(1)).index_add(0, index, messages)
        count = torch.bincount(index, minlength=n).clamp(min=1).unsqueeze(1)
        return total / count

    def forward(self, x, edge_index, edge_attr):
        src, dst = edge_index
        gate = torch.sigmoid(self.gate(edge_attr))
        inflow = self.mean(self.fwd(x).index_select(0, src) * gate, dst, len(x))
        outflow = self.mean(self.bwd(x).index_select(0, dst) * gate, src, len(x))
        return F.relu(self.norm(self.root(x) + inflow + outflow))


class MuleNet(nn.Module):
    def __init__(self, d_in, d_edge, width=48, layers=2):
        super().__init__()
        dims = [d_in] + [width] * layers
        self.convs = nn.ModuleList(PaymentConv(a, b, d_edge) for a, b in zip(dims, dims[1:]))
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, 1))

    def forward(self, x, edge_index, edge_attr):
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr)
        return self.head(x).squeeze(-1)


def average_precision(score, label):
    label = label[score.argsort(descending=True)]
    hits = label.cumsum(0)
    rank = torch.arange(1, len(label) + 1)
    return ((hits / rank) * label).sum().item() / max(label.sum().item(), 1.0)


def train_epoch(model, batches, optimizer, scheduler, pos_weight):
    model.train()
    total = torch.zeros(())
    for x, edge_index, edge_attr, y in batches:
        logit = model(x, edge_index, edge_attr)
        loss = F.binary_cross_entropy_with_logits(logit, y, pos_weight=pos_weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.detach()
    return total.item() / len(batches)


@torch.inference_mode()
def validate(model, batches):
    model.eval()
    scores, labels = [], []
    for x, edge_index, edge_attr, y in batches:
        scores.append(model(x, edge_index, edge_attr))
        labels.append(y)
    return average_precision(torch.cat(scores), torch.cat(labels))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--accounts", type=int, default=120_000)
    p.add_argument("--payments", type=int, default=5_000_000)
    p.add_argument("--branches", type=int, default=1200)
    p.add_argument("--per-batch", type=int, default=6)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "ledger_graph")
    args = p.parse_args()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    ledger = make_ledger(args.accounts, args.payments, args.branches, args.seed)
    shuffled = torch.randperm(args.branches)
    n_val = args.branches // 10
    train = BranchBatches(ledger, shuffled[n_val:], args.per_batch)
    val = BranchBatches(ledger, shuffled[:n_val], args.per_batch, shuffle=False)
    model = MuleNet(ledger["x"].size(1), ledger["edge_attr"].size(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train))
    pos_weight = torch.tensor(4.0)
    best = 0.0
    with open(args.out / "history.csv", "w", newline="") as fh:
        writer = csv.writer(fh)
        writer.writerow(["epoch", "loss", "ap", "seconds"])
        for epoch in range(args.epochs):
            start = time.time()
            loss = train_epoch(model, train, optimizer, scheduler, pos_weight)
            ap = validate(model, val)
            writer.writerow([epoch, loss, ap, time.time() - start])
            print(f"epoch {epoch} loss {loss:.4f} val AP {ap:.3f} {time.time() - start:.1f}s", flush=True)
            if ap > best:
                best = ap
                torch.save(model.state_dict(), args.out / "best.pt")


if __name__ == "__main__":
    main()
