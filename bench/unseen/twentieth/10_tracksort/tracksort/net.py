import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w)
        x = x + self.proj(mixed)
        return x + self.mlp(self.norm2(x))


class TrackSorter(nn.Module):
    def __init__(self, features, width, depth, slots):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.slots = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, slots))

    def forward(self, hits):
        x = self.embed(hits)
        for layer in self.layers:
            x = layer(x)
        return self.slots(x)


def sorting_loss(logits, label):
    hit = F.cross_entropy(logits.flatten(0, 1), label.flatten(), label_smoothing=0.02)
    # tracks should keep their share of the hits
    share = logits.softmax(-1).mean(1)
    target = F.one_hot(label, logits.shape[-1]).float().mean(1)
    return hit + 0.5 * (share - target).abs().sum(-1).mean()
