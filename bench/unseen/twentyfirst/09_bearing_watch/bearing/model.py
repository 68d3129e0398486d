import torch
from torch import nn


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, reduction: int = 4):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(channels, channels // reduction, 1),
            nn.ReLU(inplace=True),
            nn.Conv1d(channels // reduction, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return x * self.gate(x)


class Block(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(c_in, c_out, 7, stride=stride, padding=3, bias=False),
            nn.BatchNorm1d(c_out),
            nn.ReLU(inplace=True),
            nn.Conv1d(c_out, c_out, 5, padding=2, bias=False),
            nn.BatchNorm1d(c_out),
            SqueezeExcite(c_out),
        )
        self.skip = nn.Conv1d(c_in, c_out, 1, stride=stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class EnvelopeNet(nn.Module):
    """1-D residual network on band envelopes."""

    def __init__(self, bands: int, classes: int, width: int = 24, dropout: float = 0.2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(bands, width, 15, stride=2, padding=7), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(
            Block(width, width, 2),
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
        )
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(8 * width, classes))

    def forward(self, x):
        h = self.blocks(self.stem(x))
        return self.head(torch.cat([h.mean(dim=2), h.amax(dim=2)], dim=1))
