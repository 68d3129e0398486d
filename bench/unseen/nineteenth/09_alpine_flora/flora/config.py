from dataclasses import dataclass


@dataclass
class RunConfig:
    # atlas
    rows: int = 1000
    cols: int = 1200
    layers: int = 32
    window: int = 15
    # relevés
    sites: int = 24000
    species: int = 420
    # network
    width: int = 64
    depth: int = 3
    embed: int = 256
    # optimisation
    steps: int = 440
    batch_size: int = 24
    lr: float = 1.5e-3
    weight_decay: float = 1e-2
    warmup: int = 20
    clip: float = 5.0
    # bookkeeping
    print_every: int = 20
    eval_every: int = 220
    eval_batches: int = 4
    seed: int = 7
