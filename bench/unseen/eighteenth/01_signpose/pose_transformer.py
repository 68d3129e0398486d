import math

import torch
import torch.nn.functional as F
from torch import nn

from registry import LOSSES, MODELS


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, key_mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=key_mask[:, None, None, :])
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def forward(self, x, key_mask):
        x = x + self.attn(self.n1(x), key_mask)
        return x + self.mlp(self.n2(x))


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, x, key_mask):
        w = self.score(x).squeeze(-1).masked_fill(~key_mask, float("-inf")).softmax(-1)
        return torch.einsum("bt,btd->bd", w, x)


@MODELS.register("pose_transformer")
class PoseTransformer(nn.Module):
    def __init__(self, dim, depth, heads, mlp_ratio, in_features, num_classes, max_frames):
        super().__init__()
        self.embed = nn.Linear(2 * in_features, dim)
        pos = torch.arange(max_frames)[:, None]
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(max_frames, dim)
        table[:, 0::2], table[:, 1::2] = torch.sin(pos * freq), torch.cos(pos * freq)
        self.register_buffer("pos", table, persistent=False)
        self.blocks = nn.ModuleList([Block(dim, heads, mlp_ratio) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.pool = AttentionPool(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x, mask):
        velocity = F.pad(x[:, 1:] - x[:, :-1], (0, 0, 1, 0)) * mask[..., None]
        h = self.embed(torch.cat([x, velocity], -1)) + self.pos[: x.shape[1]]
        for block in self.blocks:
            h = block(h, mask)
        return self.head(self.pool(self.norm(h), mask))


@LOSSES.register("smoothed_ce")
class SmoothedCE(nn.Module):
    def __init__(self, smoothing):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, y):
        return F.cross_entropy(logits, y, label_smoothing=self.smoothing)
