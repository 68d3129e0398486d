"""Forecasts the electric load of substations: a causal transformer over patches of quarter-hourly values."""

# expect: verdict=healthy finding=none

import math

import common
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset


class LoadWindows(Dataset):
    """Windows at random places of long series with daily and weekly rhythms."""

    def __init__(self, stations, values, window, count):
        rng = np.random.default_rng(4)
        time = np.arange(values, dtype=np.float32)
        phases = rng.random((stations, 1), dtype=np.float32) * 6.28
        series = np.sin(time * (6.28 / 96) + phases) + 0.5 * np.sin(time * (6.28 / 672) + 2 * phases)
        series += 0.2 * rng.standard_normal((stations, values), dtype=np.float32)
        self.series = torch.from_numpy(series.astype(np.float32))
        self.window = window
        self.stations = rng.integers(0, stations, count)
        self.starts = rng.integers(0, values - window, count)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        start = self.starts[index]
        return self.series[self.stations[index], start : start + self.window]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Forecaster(nn.Module):
    """Every patch predicts the quantiles of the patch after it."""

    def __init__(self, patch, patches, width, depth, heads):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, width)
        self.places = nn.Parameter(torch.randn(patches, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 3 * patch)
        self.register_buffer("levels", torch.tensor([0.1, 0.5, 0.9]), persistent=False)

    def forward(self, windows):
        scale, centre = torch.std_mean(windows, dim=1, keepdim=True)
        patches = ((windows - centre) / scale.clamp(min=1e-3)).unflatten(1, (-1, self.patch))
        x = self.embed(patches[:, :-1]) + self.places
        for block in self.blocks:
            x = block(x)
        quantiles = self.head(self.norm(x)).unflatten(-1, (3, self.patch)).float()
        error = patches[:, 1:].unsqueeze(2) - quantiles
        levels = self.levels[:, None]
        return torch.maximum(levels * error, (levels - 1) * error).mean()


def main():
    args = common.arguments()
    torch.set_float32_matmul_precision("high")
    batch = common.sized(args, 128, 4)
    workers = common.sized(args, 6, 0)
    patch, patches = common.sized(args, 16, 4), common.sized(args, 256, 16)
    stations, values = common.sized(args, 200, 5), common.sized(args, 60_000, 500)
    windows = LoadWindows(stations, values, patch * (patches + 1), common.sized(args, 60_000, 200))
    loader = DataLoader(
        windows,
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=args.device == "cuda",
        persistent_workers=workers > 0,
    )
    batches = common.endless(loader)
    width, depth, heads = common.sized(args, (1024, 5, 16), (32, 2, 4))
    model = Forecaster(patch, patches, width, depth, heads).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1, (step + 1) / 20) * (0.55 + 0.45 * math.cos(min(1, step / 2000) * math.pi)),
    )
    losses = []
    for _ in common.steps(args, losses, batch):
        window = next(batches).to(args.device, non_blocking=True)
        with torch.autocast(args.device, torch.bfloat16):
            loss = model(window)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
