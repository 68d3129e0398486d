"""Survey to section network: dense lift to a coarse grid, then a residual U-shaped decoder."""
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x):
        return x + self.second(F.gelu(self.first(self.norm(x))))


class SectionDecoder(nn.Module):
    def __init__(self, settings, grid):
        super().__init__()
        self.shape = grid.shape
        inputs = len(grid.injections) * len(grid.potentials)
        width = settings.width
        self.coarse = (-(-grid.shape[0] // 2), -(-grid.shape[1] // 2))
        self.lift = nn.Sequential(
            nn.Linear(inputs, 512), nn.GELU(),
            nn.Linear(512, 16 * self.coarse[0] * self.coarse[1]),
        )
        self.widen = nn.Conv2d(16, width, 1)
        self.coarse_blocks = nn.Sequential(*[Residual(width) for _ in range(settings.levels)])
        self.fine_blocks = nn.Sequential(*[Residual(width) for _ in range(settings.levels)])
        self.depth_code = nn.Parameter(torch.zeros(1, width, grid.shape[0], 1))
        self.out = nn.Conv2d(width, 1, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, data):
        x = self.lift(data.flatten(1)).unflatten(1, (16, *self.coarse))
        x = self.coarse_blocks(self.widen(x))
        x = F.interpolate(x, size=self.shape, mode="bilinear", align_corners=False)
        x = self.fine_blocks(x + self.depth_code)
        return 2.5 * torch.tanh(self.out(x).squeeze(1))
