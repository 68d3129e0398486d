import torch
from torch import nn
from torch.nn import functional as F


def conv_block(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )


class Trunk(nn.Module):
    """Encoder with a light top-down path; returns features at half size and the pooled code."""

    def __init__(self, bands, width):
        super().__init__()
        self.stem = nn.Conv2d(bands, width, 5, 2, 2)
        self.low = conv_block(width, width)
        self.mid = conv_block(width, 2 * width, 2)
        self.high = conv_block(2 * width, 4 * width, 2)
        self.deep = conv_block(4 * width, 4 * width, 2)
        self.lateral = nn.ModuleList([nn.Conv2d(c, 2 * width, 1) for c in (width, 2 * width, 4 * width, 4 * width)])

    def forward(self, x):
        levels = [self.low(self.stem(x))]
        for stage in (self.mid, self.high, self.deep):
            levels.append(stage(levels[-1]))
        top = self.lateral[-1](levels[-1])
        for level, lateral in zip(levels[-2::-1], self.lateral[-2::-1]):
            top = lateral(level) + F.interpolate(top, size=level.shape[-2:], mode="nearest")
        return top, levels[-1].mean((2, 3))


class DenseHead(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, inputs // 2, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(inputs // 2, outputs, 1)
        )

    def forward(self, features):
        return self.body(features)


class ReliefNet(nn.Module):
    def __init__(self, bands, width, classes, periods):
        super().__init__()
        self.trunk = Trunk(bands, width)
        self.heads = nn.ModuleDict({
            "feature": DenseHead(2 * width, classes),
            "line": DenseHead(2 * width, 1),
        })
        self.period = nn.Sequential(nn.Linear(4 * width, 64), nn.ReLU(inplace=True), nn.Linear(64, periods))

    def forward(self, relief):
        dense, pooled = self.trunk(relief)
        output = {name: head(dense) for name, head in self.heads.items()}
        output["line"] = output["line"].squeeze(1)
        output["period"] = self.period(pooled)
        return output
