import torch
from torch import nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.width
        self.heads = cfg.heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.up = nn.Linear(d, cfg.mlp)
        self.down = nn.Linear(cfg.mlp, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.width)
        self.pos = nn.Parameter(torch.randn(cfg.max_len, cfg.width) * 0.02)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class StabilityModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.head = nn.Sequential(nn.Linear(cfg.width, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, ids):
        return self.head(self.encoder(ids).mean(1)).squeeze(-1)
