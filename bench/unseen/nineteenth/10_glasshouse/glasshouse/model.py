import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class QuantileHead(nn.Module):
    """Median plus positive steps outwards, so that quantiles never cross."""

    def __init__(self, width, horizon, targets, quantiles):
        super().__init__()
        self.shape = (targets, horizon, quantiles)
        self.middle = quantiles // 2
        self.linear = nn.Linear(width, targets * horizon * quantiles)

    def forward(self, x):
        raw = self.linear(x).unflatten(-1, self.shape)
        below, median, above = raw.split([self.middle, 1, self.middle], dim=-1)
        down = F.softplus(below).flip(-1).cumsum(-1).flip(-1)
        return torch.cat([median - down, median, median + F.softplus(above).cumsum(-1)], dim=-1)


class ClimateForecaster(nn.Module):
    def __init__(self, features, targets, quantiles, history, horizon, patch, width, heads, layers, hidden):
        super().__init__()
        self.patch = nn.Conv1d(features, width, patch, stride=patch)
        self.position = nn.Parameter(torch.randn(1, history // patch, width) * 0.02)
        self.layers = nn.Sequential(*[Layer(width, heads, hidden) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = QuantileHead(2 * width, horizon, targets, quantiles)

    def forward(self, past):
        tokens = self.patch(past).transpose(1, 2) + self.position
        tokens = self.norm(self.layers(tokens))
        return self.head(torch.cat([tokens.mean(1), tokens[:, -1]], dim=-1))
