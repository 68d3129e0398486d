import torch
import torch.nn.functional as F
from torch import nn


class GaussianBasis(nn.Module):
    def __init__(self, cutoff, count):
        super().__init__()
        self.register_buffer("mu", torch.linspace(0.5, cutoff, count))
        self.gamma = (count / cutoff) ** 2
        self.cutoff = cutoff

    def forward(self, d):
        envelope = 0.5 * (torch.cos(d * torch.pi / self.cutoff) + 1)
        return torch.exp(-self.gamma * (d[:, None] - self.mu) ** 2) * envelope[:, None]


def mlp(*widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Linear(a, b), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


class Message(nn.Module):
    def __init__(self, width, edge_width):
        super().__init__()
        self.phi = mlp(2 * width + edge_width, width, width)
        self.gate = nn.Linear(width, 1)
        self.update = mlp(2 * width, width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, h, edges, e):
        src, dst = edges
        m = self.phi(torch.cat([h[src], h[dst], e], -1))
        m = m * torch.sigmoid(self.gate(m))
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return self.norm(h + self.update(torch.cat([h, agg], -1)))


class PocketNet(nn.Module):
    def __init__(self, width, layers, rbf, angle_bins, cutoff, kinds=8):
        super().__init__()
        self.atom = nn.Embedding(kinds, width)
        self.charge = nn.Linear(1, width)
        self.basis = GaussianBasis(cutoff, rbf)
        self.edge = mlp(rbf + angle_bins, width // 2, width // 2)
        self.layers = nn.ModuleList([Message(width, width // 2) for _ in range(layers)])
        self.readout = mlp(width, width, 1)

    def forward(self, g):
        h = self.atom(g.kind) + self.charge(g.charge)
        e = self.edge(torch.cat([self.basis(g.dist), g.angles], -1))
        for layer in self.layers:
            h = layer(h, g.edges, e)
        count = torch.bincount(g.owner, minlength=g.size).clamp(min=1)[:, None]
        pooled = h.new_zeros(g.size, h.shape[1]).index_add_(0, g.owner, h) / count
        return self.readout(pooled).squeeze(-1)


def affinity_loss(pred, y):
    return F.smooth_l1_loss(pred, y, beta=0.5)
