"""Recurrent trip encoder with a scorer over all delivery zones."""
import torch
from torch import nn

from .config import CityConfig, NetworkConfig
from .trips import PAD, TripBatch


def last_valid(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Entry of the last real stop of each trip."""
    return x[torch.arange(x.shape[0], device=x.device), lengths - 1]


class StopEmbedding(nn.Module):
    def __init__(self, city: CityConfig, cfg: NetworkConfig):
        super().__init__()
        self.zone = nn.Embedding(city.zones + 1, cfg.zone_dim, padding_idx=PAD)
        self.minute = nn.Embedding(96, cfg.time_dim)
        self.mix = nn.Linear(cfg.zone_dim + cfg.time_dim + 1, cfg.hidden)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, batch: TripBatch) -> torch.Tensor:
        parts = [self.zone(batch.zones), self.minute(batch.minute), batch.dwell.unsqueeze(-1)]
        return self.drop(torch.relu(self.mix(torch.cat(parts, dim=-1))))


class ZoneScorer(nn.Module):
    """Scores every zone against a state; the zone vectors are those of the input embedding."""

    def __init__(self, table: nn.Embedding, hidden: int):
        super().__init__()
        self.table = table
        self.query = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, table.embedding_dim))
        self.popularity = nn.Parameter(torch.zeros(table.num_embeddings))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.query(states), self.table.weight, self.popularity)


class NextStopNetwork(nn.Module):
    def __init__(self, city: CityConfig, cfg: NetworkConfig):
        super().__init__()
        self.embed = StopEmbedding(city, cfg)
        self.encoder = nn.GRU(cfg.hidden, cfg.hidden, cfg.layers, batch_first=True, dropout=cfg.dropout)
        self.scorer = ZoneScorer(self.embed.zone, cfg.hidden)
        nn.init.normal_(self.embed.zone.weight, std=0.1)

    def forward(self, batch: TripBatch) -> torch.Tensor:
        states, _ = self.encoder(self.embed(batch))
        scores = self.scorer(states)
        return last_valid(scores, batch.lengths)
