import torch
from torch import nn
import torch.nn.functional as F


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.freq = nn.Parameter(torch.logspace(-2, 1, dim // 2))

    def forward(self, gaps):
        phase = gaps.cumsum(1).unsqueeze(-1) * self.freq
        return torch.cat([phase.sin(), phase.cos()], dim=-1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class EventEncoder(nn.Module):
    def __init__(self, n_types, n_labels, dim, layers, heads=4):
        super().__init__()
        self.embed = nn.Embedding(n_types + 1, dim, padding_idx=0)
        self.time = TimeEmbedding(dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, n_labels)

    def forward(self, events, gaps):
        real = events > 0
        x = self.embed(events) + self.time(gaps)
        mask = real[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weight = real.unsqueeze(-1).float()
        pooled = (self.norm(x) * weight).sum(1) / weight.sum(1)
        return self.out(pooled)
