"""Simulated portfolio: normalised power of several sites and the weather forecast for them."""
from dataclasses import dataclass
from typing import Iterator, NamedTuple

import torch


@dataclass
class FarmConfig:
    sites: int = 10
    horizon: int = 48          # half hours
    days: int = 5200
    seed: int = 29


class Portfolio(NamedTuple):
    forecast: torch.Tensor     # [N, sites, horizon]
    power: torch.Tensor        # [N, sites, horizon], logit scale

    def rows(self, index) -> "Portfolio":
        return Portfolio(self.forecast.index_select(0, index), self.power.index_select(0, index))


def simulate(cfg: FarmConfig) -> Portfolio:
    g = torch.Generator().manual_seed(cfg.seed)
    n, s, t = cfg.days, cfg.sites, cfg.horizon
    place = torch.rand(s, 2, generator=g)
    mix = torch.exp(-torch.cdist(place, place) / 0.4)
    chol = torch.linalg.cholesky(mix + 1e-3 * torch.eye(s))

    def weather(phi: float, scale: float) -> torch.Tensor:
        shock = torch.einsum("ij,njt->nit", chol, torch.randn(n, s, t, generator=g))
        state, path = torch.randn(n, s, generator=g), []
        for k in range(t):
            state = phi * state + (1 - phi**2) ** 0.5 * shock[:, :, k]
            path.append(state)
        return scale * torch.stack(path, dim=2)

    base = weather(0.97, 1.0) + 0.6 * torch.randn(n, 1, 1, generator=g)
    error = weather(0.90, 0.45) * (1 + 0.5 * torch.tanh(base))
    forecast = base
    wind = (base + error).mul(0.9)
    power = torch.clamp(2.2 * torch.tanh(wind) + 0.05 * torch.randn(n, s, t, generator=g), -3, 3)
    return Portfolio(forecast, power)


def endless(data: Portfolio, batch_size: int, generator: torch.Generator) -> Iterator[Portfolio]:
    """Batches without end; a new permutation when the old one is used up."""
    n = len(data.power)
    while True:
        order = torch.randperm(n, generator=generator)
        for i in range(0, n - batch_size + 1, batch_size):
            yield data.rows(order[i : i + batch_size])
