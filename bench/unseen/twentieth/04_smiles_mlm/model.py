import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, w // self.heads).unbind(2)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.relu(self.up(self.n2(x)), inplace=True))


class Encoder(nn.Module):
    def __init__(self, n_tokens, length, width, depth, heads):
        super().__init__()
        self.tok = nn.Embedding(n_tokens, width)
        self.pos = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, n_tokens)

    def forward(self, tokens, where):
        x = self.tok(tokens) + self.pos
        for block in self.blocks:
            x = block(x)
        x = x.gather(1, where[..., None].expand(-1, -1, x.shape[-1]))
        return self.out(self.norm(x)).flatten(0, 1)
