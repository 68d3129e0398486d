from dataclasses import dataclass, field


@dataclass
class CityConfig:
    grid: int = 64                # zones per side
    hubs: int = 40
    trips: int = 16000
    min_stops: int = 18
    max_stops: int = 44
    seed: int = 5

    @property
    def zones(self) -> int:
        return self.grid * self.grid


@dataclass
class NetworkConfig:
    zone_dim: int = 64
    time_dim: int = 16
    hidden: int = 112
    layers: int = 2
    dropout: float = 0.1


@dataclass
class OptimConfig:
    batch_size: int = 64
    epochs: int = 2
    lr: float = 2e-3
    weight_decay: float = 1e-4
    warmup: int = 60
    clip: float = 1.0
    smooth_radius: float = 1.5     # in zones
    smooth_mass: float = 0.15
    val_every: int = 110
    patience: int = 8


@dataclass
class RunConfig:
    seed: int = 11
    city: CityConfig = field(default_factory=CityConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
