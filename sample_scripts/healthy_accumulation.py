"""Outlines of blobs are found by a small U-Net, with the gradients of four batches added up for each update."""

# expect: verdict=healthy finding=none

import argparse

import torch
from torch import nn


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.outer = double(1, channels)
        self.inner = double(channels, 2 * channels)
        self.merge = double(3 * channels, channels)
        self.head = nn.Conv2d(channels, 1, 1)

    def forward(self, x):
        outer = self.outer(x)
        inner = self.inner(nn.functional.max_pool2d(outer, 2))
        inner = nn.functional.interpolate(inner, scale_factor=2.0)
        return self.head(self.merge(torch.cat([outer, inner], 1)))


def blobs(count, side, random):
    """Noisy pictures and the masks of the bright spots in them."""
    rough = torch.randn(count, 1, side // 16, side // 16, generator=random)
    smooth = nn.functional.interpolate(rough, size=(side, side), mode="bilinear")
    return smooth + 0.5 * torch.randn(smooth.shape, generator=random), (smooth > 0.5).float()


def train(updates, accumulate, batch_size):
    random = torch.Generator().manual_seed(0)
    pictures, masks = blobs(32 * batch_size, 64, random)
    model = UNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for update in range(1, updates + 1):
        optimizer.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(len(pictures), (batch_size,), generator=random)
            loss = nn.functional.binary_cross_entropy_with_logits(model(pictures[rows]), masks[rows])
            (loss / accumulate).backward()
        optimizer.step()
        if update % 20 == 0:
            print(f"update {update}: loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=80)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    train(args.updates, args.accumulate, args.batch_size)
