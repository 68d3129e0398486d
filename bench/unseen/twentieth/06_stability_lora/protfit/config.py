from dataclasses import dataclass, field
from typing import Tuple


@dataclass
class ModelConfig:
    vocab: int = 24
    width: int = 256
    heads: int = 8
    layers: int = 4
    mlp: int = 1024
    max_len: int = 96


@dataclass
class AdapterConfig:
    rank: int = 8
    alpha: float = 16.0
    targets: Tuple[str, ...] = ("qkv", "proj", "up", "down")


@dataclass
class RunConfig:
    seed: int = 7
    batch: int = 8
    steps: int = 400
    lr: float = 1e-3
    clip: float = 1.0
    log_every: int = 20
    run_dir: str = ""
    model: ModelConfig = field(default_factory=ModelConfig)
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
