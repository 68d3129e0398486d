import torch
from torch import nn


class ResidualConv(nn.Module):
    def __init__(self, width: int, dilation: int, norm: bool):
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width) if norm else nn.Identity()
        self.act = nn.SiLU()

    def forward(self, x):
        return x + self.conv2(self.act(self.conv1(self.act(self.norm(x)))))


class Generator(nn.Module):
    def __init__(self, sites: int, noise: int = 16, width: int = 64, depth: int = 4):
        super().__init__()
        self.noise = noise
        self.inlet = nn.Conv1d(sites + noise, width, 5, padding=2)
        self.body = nn.Sequential(*[ResidualConv(width, 2**i, norm=True) for i in range(depth)])
        self.outlet = nn.Conv1d(width, sites, 3, padding=1)

    def forward(self, forecast, z):
        return 3.0 * torch.tanh(self.outlet(self.body(self.inlet(torch.cat([forecast, z], dim=1)))))

    def sample_noise(self, n: int, horizon: int, generator: torch.Generator) -> torch.Tensor:
        return torch.randn(n, self.noise, horizon, generator=generator)


class Critic(nn.Module):
    def __init__(self, sites: int, width: int = 64, depth: int = 3):
        super().__init__()
        self.inlet = nn.Conv1d(2 * sites, width, 5, padding=2)
        self.body = nn.Sequential(*[ResidualConv(width, 2**i, norm=False) for i in range(depth)])
        self.score = nn.Sequential(nn.SiLU(), nn.Linear(width, 1))

    def forward(self, forecast, power):
        h = self.body(self.inlet(torch.cat([forecast, power], dim=1)))
        return self.score(h.mean(dim=2)).squeeze(-1)
