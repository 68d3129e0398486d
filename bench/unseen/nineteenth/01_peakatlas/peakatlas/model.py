from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .settings import ModelSettings


def _trunk(width_in: int, cfg: ModelSettings) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(cfg.depth - 1):
        layers += [nn.Linear(width_in, cfg.hidden), nn.LayerNorm(cfg.hidden), nn.SiLU(), nn.Dropout(cfg.dropout)]
        width_in = cfg.hidden
    return nn.Sequential(*layers)


class PeakVAE(nn.Module):
    """Bernoulli VAE with donor covariate and per-cell depth factor."""

    def __init__(self, n_peaks: int, n_donors: int, idf: torch.Tensor, cfg: ModelSettings):
        super().__init__()
        self.register_buffer("idf", idf)
        self.n_donors = n_donors
        self.embed = nn.Linear(n_peaks, cfg.hidden)
        self.embed_norm = nn.LayerNorm(cfg.hidden)
        self.encoder = _trunk(cfg.hidden, cfg)
        self.to_mean = nn.Linear(cfg.hidden, cfg.latent)
        self.to_logvar = nn.Linear(cfg.hidden, cfg.latent)
        self.depth_head = nn.Linear(cfg.hidden, 1)
        self.decoder_in = nn.Linear(cfg.latent + n_donors, cfg.hidden)
        self.decoder = _trunk(cfg.hidden, cfg)
        self.to_logits = nn.Linear(cfg.hidden, n_peaks)

    def encode(self, x: torch.Tensor):
        weighted = x * self.idf
        weighted = weighted / weighted.sum(dim=1, keepdim=True).clamp_min(1.0) * 100.0
        h = self.encoder(F.silu(self.embed_norm(self.embed(weighted))))
        return self.to_mean(h), self.to_logvar(h).clamp(-8.0, 4.0), self.depth_head(h)

    def decode(self, z: torch.Tensor, donor: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
        covariate = F.one_hot(donor, self.n_donors).to(z.dtype)
        h = self.decoder(F.silu(self.decoder_in(torch.cat([z, covariate], dim=1))))
        return self.to_logits(h) + depth

    def forward(self, x: torch.Tensor, donor: torch.Tensor):
        mean, logvar, depth = self.encode(x)
        z = mean
        if self.training:
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.decode(z, donor, depth), mean, logvar
