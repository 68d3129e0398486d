"""Graph transformer regression of aqueous solubility on small molecules."""
import argparse
import random

import networkx as nx
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

ATOMS = ["C", "N", "O", "F", "S", "Cl", "Br", "P"]
MAX_HOPS = 12
N_EIG = 6


def random_molecule(rng):
    n = rng.randint(14, 30)
    g = nx.Graph()
    for i in range(n):
        g.add_node(i, atom=rng.choices(range(len(ATOMS)), weights=[60, 12, 12, 4, 4, 4, 2, 2])[0])
        if i:
            g.add_edge(i, rng.randint(max(0, i - 4), i - 1), order=rng.choice([1, 1, 1, 2]))
    for _ in range(rng.randint(0, 3)):
        a = rng.randrange(n - 5)
        g.add_edge(a, a + 5, order=1)
    polar = sum(1 for _, d in g.nodes(data=True) if ATOMS[d["atom"]] in ("N", "O"))
    rings = g.number_of_edges() - n + 1
    y = 0.6 * polar - 0.8 * rings - 0.1 * n + rng.gauss(0, 0.2)
    return g, y


def featurize(g):
    atoms = [g.nodes[v]["atom"] for v in g.nodes]
    hops = np.full((len(atoms), len(atoms)), MAX_HOPS, dtype=np.int64)
    for u, lengths in nx.all_pairs_shortest_path_length(g):
        for v, d in lengths.items():
            hops[u, v] = min(d, MAX_HOPS)
    lap = nx.normalized_laplacian_matrix(g).toarray()
    _, vec = np.linalg.eigh(lap)
    degree = [g.degree(v) for v in g.nodes]
    return (torch.tensor(atoms), torch.tensor(degree).clamp(max=7), torch.from_numpy(hops),
            torch.from_numpy(vec[:, 1:N_EIG + 1]).float())


def collate(batch):
    feats = [featurize(g) for g, _ in batch]
    n = max(len(f[0]) for f in feats)
    atoms = torch.zeros(len(batch), n, dtype=torch.long)
    degree = torch.zeros(len(batch), n, dtype=torch.long)
    hops = torch.full((len(batch), n, n), MAX_HOPS, dtype=torch.long)
    eig = torch.zeros(len(batch), n, N_EIG)
    mask = torch.zeros(len(batch), n, dtype=torch.bool)
    for i, (a, d, h, e) in enumerate(feats):
        k = len(a)
        atoms[i, :k], degree[i, :k], hops[i, :k, :k], eig[i, :k], mask[i, :k] = a, d, h, e, True
    return atoms, degree, hops, eig, mask, torch.tensor([y for _, y in batch], dtype=torch.float32)


class GraphLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, bias):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(h.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class Graphormer(nn.Module):
    def __init__(self, d=96, heads=4, layers=4):
        super().__init__()
        self.atom, self.degree = nn.Embedding(len(ATOMS), d), nn.Embedding(8, d)
        self.eig = nn.Linear(N_EIG, d)
        self.spatial = nn.Embedding(MAX_HOPS + 1, heads)
        self.layers = nn.ModuleList(GraphLayer(d, heads) for _ in range(layers))
        self.head = nn.Linear(d, 1)

    def forward(self, atoms, degree, hops, eig, mask):
        sign = torch.where(torch.rand(eig.size(0), 1, N_EIG) < 0.5, -1.0, 1.0)
        x = self.atom(atoms) + self.degree(degree) + self.eig(eig * sign)
        bias = self.spatial(hops).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~mask[:, None, None, :], -1e9)
        for layer in self.layers:
            x = layer(x, bias)
        x = (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return self.head(x).squeeze(-1)


def train(model, loader, epochs, lr):
    opt = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    for epoch in range(epochs):
        total, count = 0.0, 0
        for *inputs, y in loader:
            loss = F.smooth_l1_loss(model(*inputs), y)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total, count = total + loss.item() * len(y), count + len(y)
        print(f"epoch {epoch + 1:02d} | huber {total / count:.4f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--molecules", type=int, default=1024)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    a = p.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    molecules = [random_molecule(rng) for _ in range(a.molecules)]
    loader = DataLoader(molecules, batch_size=a.batch, shuffle=True, collate_fn=collate)
    train(Graphormer(), loader, a.epochs, a.lr)


if __name__ == "__main__":
    main()
