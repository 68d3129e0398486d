"""Which base was hidden? A transformer reads strings of DNA that contain their own mirror image."""

import argparse

import torch
from torch import nn

BASES, MASK = 4, 4


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Reader(nn.Module):
    def __init__(self, length, width=64, heads=8, depth=2):
        super().__init__()
        self.letters = nn.Embedding(BASES + 1, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, BASES)

    def forward(self, strand):
        return self.head(self.blocks(self.letters(strand) + self.places))


def strands(count, length):
    half = torch.randint(BASES, (count, length // 2))
    return torch.cat([half, BASES - 1 - half.flip(1)], 1)


def train(steps, batch_size, length):
    model = Reader(length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        strand = strands(batch_size, length)
        hidden = torch.rand(strand.shape) < 0.15
        logits = model(strand.masked_fill(hidden, MASK))
        loss = nn.functional.cross_entropy(logits[hidden], strand[hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    args = parser.parse_args()
    torch.manual_seed(0)
    train(args.steps, args.batch_size, args.length)
