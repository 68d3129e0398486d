import torch
from torch import nn

from .book import CATEGORIES, NUMERIC


class FeatureTokens(nn.Module):
    """One token for each feature plus a readout token."""

    def __init__(self, dim: int):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(NUMERIC, dim) * dim**-0.5)
        self.shift = nn.Parameter(torch.randn(NUMERIC, dim) * dim**-0.5)
        sizes = list(CATEGORIES.values())
        self.table = nn.Embedding(sum(sizes), dim)
        self.register_buffer("offset", torch.tensor([0] + sizes[:-1]).cumsum(0))
        self.readout = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, numeric, categorical):
        num = numeric.unsqueeze(-1) * self.scale + self.shift
        cat = self.table(categorical + self.offset)
        return torch.cat([self.readout.expand(len(numeric), -1, -1), num, cat], dim=1)


class DefaultModel(nn.Module):
    def __init__(self, dim: int = 24, depth: int = 1, heads: int = 4, dropout: float = 0.1, prior: float = 0.07):
        super().__init__()
        self.tokens = FeatureTokens(dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, dim_feedforward=2 * dim, dropout=dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))
        nn.init.constant_(self.head[-1].bias, float(torch.logit(torch.tensor(prior))))

    def forward(self, numeric, categorical):
        return self.head(self.encoder(self.tokens(numeric, categorical))[:, 0]).squeeze(-1)
