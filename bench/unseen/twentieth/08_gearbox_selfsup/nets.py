import torch
from torch import nn
import torch.nn.functional as F


class MixBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.relu(self.fc1(self.ln2(x))))


class PatchEncoder(nn.Module):
    def __init__(self, crop, patch, dim, depth, heads):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(crop // patch, dim))
        self.blocks = nn.Sequential(*[MixBlock(dim, heads) for _ in range(depth)])
        self.ln = nn.LayerNorm(dim)

    def forward(self, x):
        return self.ln(self.blocks(self.embed(x.unflatten(1, (-1, self.patch))) + self.pos)).mean(1)


def projector(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(inplace=True), nn.Linear(h, o))


class Student(nn.Module):
    def __init__(self, dim, out, **kw):
        super().__init__()
        self.encoder = PatchEncoder(dim=dim, **kw)
        self.project = projector(dim, 2 * dim, out)
        self.predict = projector(out, 2 * dim, out)

    def target(self, x):
        return self.project(self.encoder(x))

    def forward(self, x):
        return self.predict(self.target(x))
