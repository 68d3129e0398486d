import torch
from torch import nn

from .registry import MODELS


@MODELS.register("ea_lstm")
class EntityLSTM(nn.Module):
    """LSTM over the forcing; static attributes gate what comes in."""

    def __init__(self, hidden, dropout, n_features, n_static, horizon):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(n_features, hidden), nn.GELU())
        self.gate = nn.Sequential(nn.Linear(n_static, hidden), nn.Sigmoid())
        self.rnn = nn.LSTM(hidden, hidden, batch_first=True)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 2 * horizon))

    def forward(self, x, s):
        z = self.inp(x) * self.gate(s)[:, None]
        h, _ = self.rnn(z)
        mean, log_scale = self.head(self.drop(h[:, -1])).chunk(2, -1)
        return mean, log_scale.clamp(-5, 3)


def laplace_nll(mean, log_scale, y):
    return ((y - mean).abs() * torch.exp(-log_scale) + log_scale).mean()
