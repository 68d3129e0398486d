"""Noise is taken out of pictures of waves; the mean absolute error is added up along the way."""

import argparse

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
            nn.Conv2d(channels, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, noisy):
        return noisy - self.layers(noisy)


def waves(count, side):
    """Sums of two plane waves."""
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    pictures = torch.zeros(count, side, side)
    for _ in range(2):
        direction = torch.rand(count, 2, 1, 1) * 0.4
        pictures += torch.sin(direction[:, 0] * y + direction[:, 1] * x)
    return pictures.unsqueeze(1)


class Experiment:
    def __init__(self, args):
        self.args = args
        self.model = Denoiser()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def fit(self):
        error = 0.0
        for step in range(1, self.args.steps + 1):
            clean = waves(self.args.batch_size, self.args.side)
            output = self.model(clean + 0.3 * torch.randn_like(clean))
            loss = nn.functional.mse_loss(output, clean)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            error += nn.functional.smooth_l1_loss(output.detach(), clean)
            if step % 50 == 0:
                print(f"step {step}: mean error so far {error.item() / step:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--side", type=int, default=96)
    torch.manual_seed(0)
    Experiment(parser.parse_args()).fit()
