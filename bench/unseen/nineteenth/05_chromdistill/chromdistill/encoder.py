import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(),
                                 nn.Linear(mlp_ratio * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TraceEncoder(nn.Module):
    def __init__(self, patch, tokens, dim, depth, heads, mlp_ratio):
        super().__init__()
        self.embed = nn.Linear(patch, dim)
        self.position = nn.Parameter(torch.randn(1, tokens, dim) * 0.02)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, mlp_ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, patches, mask=None, keep_last=0):
        x = self.embed(patches)
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), self.mask_token, x)
        x = x + self.position
        kept = []
        first_kept = len(self.blocks) - keep_last
        for depth, block in enumerate(self.blocks):
            x = block(x)
            if depth >= first_kept:
                kept.append(x)
        return self.norm(x), kept


class Student(nn.Module):
    def __init__(self, encoder, dim, hidden):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, patches, mask):
        features, _ = self.encoder(patches, mask)
        return self.head(features[mask])
