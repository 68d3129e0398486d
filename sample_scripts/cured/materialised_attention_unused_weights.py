"""When does the tide turn? Attention over a gauge's last readings says how the water moves next."""

import argparse

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        normed = self.norm(x)
        mixed, _ = self.attention(normed, normed, normed, need_weights=False)
        x = x + mixed
        return x + self.mlp(x)


class Forecaster(nn.Module):
    def __init__(self, length, width=64, heads=4, depth=2):
        super().__init__()
        self.read = nn.Linear(1, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.mixers = nn.Sequential(*(Mixer(width, heads) for _ in range(depth)))
        self.tell = nn.Linear(width, 1)

    def forward(self, levels):
        hidden = self.mixers(self.read(levels[..., None]) + self.places)
        return self.tell(hidden).squeeze(-1)


def tides(count, length):
    hours = torch.arange(length + 1) / 6
    phases = 6.28 * torch.rand(count, 3, 1)
    periods = torch.tensor([12.42, 12.0, 25.82])[:, None]
    waves = torch.sin(6.28 * hours / periods + phases)
    return (waves * torch.tensor([1.0, 0.4, 0.3])[:, None]).sum(1) + 0.05 * torch.randn(count, length + 1)


def train(steps, batch_size, length):
    model = Forecaster(length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        levels = tides(batch_size, length)
        change = model(levels[:, :-1])
        loss = nn.functional.huber_loss(change, levels.diff(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--length", type=int, default=768)
    args = parser.parse_args()
    torch.manual_seed(0)
    train(args.steps, args.batch_size, args.length)
