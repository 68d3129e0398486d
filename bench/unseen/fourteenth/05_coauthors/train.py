"""SEAL link prediction on a co-author graph: will these two people write a paper together?

Each candidate pair is classified from its enclosing subgraph; nodes carry their distances to both ends (DRNL-like labels)
and the author's topic vector.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def make_graph(num_nodes, papers, seed):
    """Papers with 2-4 authors each out of the same small group, now and then a guest; groups have topics."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, num_nodes // 12, num_nodes)
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(num_nodes // 12 + 1))
    edges = []
    for g in rng.integers(0, num_nodes // 12, papers):
        members = order[start[g]:start[g + 1]]
        if len(members) < 3:
            continue
        team = rng.choice(members, min(len(members), rng.integers(2, 5)), replace=False).tolist()
        if rng.random() < 0.25:
            team.append(int(rng.integers(num_nodes)))
        edges += [(a, b) for i, a in enumerate(team) for b in team[i + 1:] if a != b]
    edges = np.unique(np.sort(np.array(edges), axis=1), axis=0)
    topics = rng.normal(size=(num_nodes // 12, 16))[group] * 0.3 + rng.normal(size=(num_nodes, 16))
    return torch.from_numpy(edges), torch.from_numpy(topics).float()


def enclosing_subgraph(nodes, hops, edge_index, num_nodes):
    """The nodes within `hops` of `nodes` (sorted) and the edges among them, relabelled."""
    row, col = edge_index
    node_mask = row.new_empty(num_nodes, dtype=torch.bool)
    edge_mask = row.new_empty(row.size(0), dtype=torch.bool)
    subsets = [nodes]
    for _ in range(hops):
        node_mask.fill_(False)
        node_mask[subsets[-1]] = True
        torch.index_select(node_mask, 0, row, out=edge_mask)
        subsets.append(col[edge_mask])
    subset = torch.cat(subsets).unique()
    node_mask.fill_(False)
    node_mask[subset] = True
    edge_mask = node_mask[row] & node_mask[col]
    position = row.new_full((num_nodes,), -1)
    position[subset] = torch.arange(len(subset))
    return subset, position[edge_index[:, edge_mask]], position[nodes]


def two_hop_strangers(edge_index, count, num_nodes):
    """Pairs who share a co-author but have no paper together."""
    row, col = edge_index
    degree = torch.bincount(row, minlength=num_nodes)
    first = degree.cumsum(0) - degree
    pick = torch.randint(len(row), (3 * count,))
    u, via = row[pick], col[pick]
    v = col[first[via] + (torch.rand(len(via)) * degree[via]).long()]
    apart = (u != v) & ~torch.isin(u * num_nodes + v, row * num_nodes + col)
    return torch.stack([u, v], 1)[apart][:count]


def distances(edges, n, source, limit):
    row, col = edges
    dist = np.full(n, limit + 1)
    dist[source] = 0
    for d in range(limit):
        reached = col[dist[row] == d]
        dist[reached] = np.minimum(dist[reached], d + 1)
    return dist


class PairSubgraphs(Dataset):
    def __init__(self, pairs, labels, edge_index, topics, hops):
        self.pairs, self.labels, self.edge_index, self.topics, self.hops = pairs, labels, edge_index, topics, hops

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        nodes, edges, ends = enclosing_subgraph(self.pairs[i], self.hops, self.edge_index, len(self.topics))
        edges, (u, v) = edges.numpy(), ends.tolist()
        hidden = ((edges[0] == u) & (edges[1] == v)) | ((edges[0] == v) & (edges[1] == u))
        edges = edges[:, ~hidden]
        role = distances(edges, len(nodes), u, self.hops) * (self.hops + 2) + distances(edges, len(nodes), v, self.hops)
        return self.topics[nodes], torch.from_numpy(role), torch.from_numpy(edges), ends, self.labels[i]


def collate(items):
    topics, roles, edges, ends, labels = zip(*items)
    sizes = torch.tensor([len(t) for t in topics])
    offsets = (sizes.cumsum(0) - sizes).tolist()
    return {"topics": torch.cat(topics), "roles": torch.cat(roles),
            "edges": torch.cat([e + o for e, o in zip(edges, offsets)], 1),
            "ends": torch.stack([e + o for e, o in zip(ends, offsets)]),
            "owner": torch.repeat_interleave(torch.arange(len(items)), sizes), "labels": torch.stack(labels)}


class SageLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own, self.near, self.norm = nn.Linear(width, width), nn.Linear(width, width, bias=False), nn.LayerNorm(width)

    def forward(self, h, edges, degree):
        message = torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]]) / degree
        return h + F.relu(self.norm(self.own(h) + self.near(message)))


class SEAL(nn.Module):
    def __init__(self, topic_dim, hops, width=128, depth=3):
        super().__init__()
        self.role = nn.Embedding((hops + 2) ** 2, width)
        self.topic = nn.Linear(topic_dim, width)
        self.layers = nn.ModuleList(SageLayer(width) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 1))

    def forward(self, b):
        h = self.role(b["roles"]) + self.topic(b["topics"])
        degree = torch.bincount(b["edges"][1], minlength=len(h)).clamp_(min=1).unsqueeze(1)
        for layer in self.layers:
            h = layer(h, b["edges"], degree)
        count = torch.bincount(b["owner"]).unsqueeze(1)
        pooled = h.new_zeros(len(count), h.shape[1]).index_add_(0, b["owner"], h) / count
        return self.head(torch.cat([h[b["ends"][:, 0]] * h[b["ends"][:, 1]], pooled], 1)).squeeze(1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores, labels = map(torch.cat, zip(*[(model(b), b["labels"]) for b in loader]))
    model.train()
    rank = scores.argsort().argsort().double() + 1
    pos, neg = labels.sum(), (1 - labels).sum()
    return ((rank[labels == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--authors", type=int, default=24_000)
    p.add_argument("--papers", type=int, default=26_000)
    p.add_argument("--pairs", type=int, default=3200)
    p.add_argument("--hops", type=int, default=2)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.manual_seed(5)

    edges, topics = make_graph(args.authors, args.papers, seed=5)
    chosen = edges[torch.randperm(len(edges))[:args.pairs // 2 + 96]]
    strangers = torch.randint(args.authors, (len(chosen) // 8, 2))
    edge_index = torch.cat([edges, edges.flip(1)]).t().contiguous()
    edge_index = edge_index[:, (edge_index[0] * args.authors + edge_index[1]).argsort()]
    acquainted = two_hop_strangers(edge_index, len(chosen) - len(strangers), args.authors)
    pairs = torch.cat([chosen, strangers, acquainted])
    labels = torch.cat([torch.ones(len(chosen)), torch.zeros(len(pairs) - len(chosen))])
    shuffle = torch.randperm(len(pairs))
    pairs, labels = pairs[shuffle], labels[shuffle]
    print(f"{args.authors} authors, {len(edges)} links, {len(pairs)} pairs", flush=True)

    dataset = PairSubgraphs(pairs, labels, edge_index, topics, args.hops)
    held = range(args.pairs, len(pairs))
    train_loader = DataLoader(torch.utils.data.Subset(dataset, range(args.pairs)), args.batch, shuffle=True, drop_last=True, collate_fn=collate)
    held_loader = DataLoader(torch.utils.data.Subset(dataset, held), 2 * args.batch, collate_fn=collate)
    model = SEAL(topics.shape[1], args.hops)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    step, best = 0, 0.0
    for epoch in range(args.epochs):
        start = time.time()
        for batch in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(batch), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        auc = evaluate(model, held_loader)
        print(f"epoch {epoch}: held-out AUC {auc:.4f}, {time.time() - start:.1f} s", flush=True)
        if auc > best:
            best = auc
            torch.save(model.state_dict(), "seal.pt")


if __name__ == "__main__":
    main()
