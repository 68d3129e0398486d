"""Continuous-filter message passing network (after SchNet), plain torch."""
import math

import torch
import torch.nn as nn


class RadialBasis(nn.Module):
    def __init__(self, count, cutoff):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("centres", torch.linspace(0, cutoff, count))
        self.gamma = (count / cutoff) ** 2

    def forward(self, d):
        envelope = 0.5 * (torch.cos(math.pi * d / self.cutoff) + 1)
        return torch.exp(-self.gamma * (d[:, None] - self.centres) ** 2) * envelope[:, None]


class Interaction(nn.Module):
    def __init__(self, width, basis):
        super().__init__()
        self.width = width
        self.filter = nn.Sequential(nn.Linear(basis, width), nn.Softplus(), nn.Linear(width, width))
        self.inp = nn.Linear(width, width, bias=False)
        self.out = nn.Sequential(nn.Linear(width, width), nn.Softplus(), nn.Linear(width, width))

    def forward(self, h, src, dst, rbf):
        message = self.inp(h)[src] * self.filter(rbf)
        return h + self.out(torch.zeros_like(h).index_add_(0, dst, message))


class EnergyNet(nn.Module):
    def __init__(self, types, width, layers, basis, cutoff):
        super().__init__()
        self.embed = nn.Embedding(types, width)
        self.rbf = RadialBasis(basis, cutoff)
        self.layers = nn.ModuleList(Interaction(width, basis) for _ in range(layers))
        self.readout = nn.Sequential(nn.Linear(width, width // 2), nn.Softplus(), nn.Linear(width // 2, 1))

    def forward(self, z, pos, edges, owner, graphs):
        src, dst = edges
        d = (pos[src] - pos[dst]).norm(dim=1)
        rbf = self.rbf(d)
        h = self.embed(z)
        for layer in self.layers:
            h = layer(h, src, dst, rbf)
        atom = self.readout(h).squeeze(1)
        return torch.zeros(graphs, dtype=atom.dtype).index_add_(0, owner, atom)
