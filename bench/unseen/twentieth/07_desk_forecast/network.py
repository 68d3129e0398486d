import torch
from torch import nn
import torch.nn.functional as F


class Gate(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.pad, 0))).chunk(2, 1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class Forecaster(nn.Module):
    """Causal gated convolutions -> expected returns; a shared factor covariance for the residuals."""

    def __init__(self, names, width, factors, depth):
        super().__init__()
        self.inp = nn.Conv1d(names, width, 1)
        self.gates = nn.ModuleList(Gate(width, 2 ** i) for i in range(depth))
        self.out = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, names))
        self.loading = nn.Parameter(0.1 * torch.randn(names, factors))
        self.log_idio = nn.Parameter(torch.zeros(names))

    def covariance(self):
        return self.loading @ self.loading.T + torch.diag(F.softplus(self.log_idio) + 1e-3)

    def forward(self, hist):
        x = self.inp(hist)
        for g in self.gates:
            x = g(x)
        return self.out(x[..., -1]), self.covariance()
