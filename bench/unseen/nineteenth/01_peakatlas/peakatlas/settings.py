from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class AtlasSettings:
    """Size of the simulated atlas."""

    n_cells: int = 3600
    peaks_per_chromosome: tuple[int, ...] = (1500, 1300, 1100, 1000, 900, 800, 700)
    n_programs: int = 14
    n_donors: int = 4
    mean_open: float = 0.034
    seed: int = 11


@dataclass(frozen=True)
class FilterSettings:
    min_cells_per_peak: int = 25
    max_open_fraction: float = 0.35
    holdout_fraction: float = 0.1


@dataclass(frozen=True)
class ModelSettings:
    hidden: int = 512
    latent: int = 24
    depth: int = 2
    dropout: float = 0.1


@dataclass(frozen=True)
class FitSettings:
    batch_size: int = 128
    epochs: int = 18
    max_steps: int | None = None
    lr: float = 1.5e-3
    weight_decay: float = 1e-4
    kl_warmup_steps: int = 120
    clip: float = 5.0
    log_every: int = 10
    seed: int = 3


@dataclass(frozen=True)
class Settings:
    atlas: AtlasSettings = field(default_factory=AtlasSettings)
    filters: FilterSettings = field(default_factory=FilterSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    fit: FitSettings = field(default_factory=FitSettings)

    def as_dict(self) -> dict:
        return asdict(self)
