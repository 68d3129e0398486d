import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.drop(self.proj(a.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.mlp(self.norm2(x)))


def season_encoding(n_dates, dim):
    pos = torch.arange(n_dates).float()[:, None]
    freq = torch.exp(-math.log(1000.0) * torch.arange(0, dim, 2).float() / dim)
    return torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], dim=1)


class SeasonEncoder(nn.Module):
    def __init__(self, bands, dates, n_classes, dim, depth, heads, mlp_ratio, dropout):
        super().__init__()
        self.embed = nn.Linear(bands, dim)
        self.register_buffer("pos", season_encoding(dates, dim), persistent=False)
        self.blocks = nn.ModuleList(Block(dim, heads, mlp_ratio, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, x, clear):
        h = self.embed(x) + self.pos
        mask = clear[:, None, None, :]
        for block in self.blocks:
            h = block(h, mask)
        w = clear.unsqueeze(-1).to(h.dtype)
        pooled = (self.norm(h) * w).sum(1) / w.sum(1)
        return self.head(pooled)
