from dataclasses import dataclass


@dataclass
class Config:
    seed: int = 3
    engines: int = 80
    sensors: int = 21
    window: int = 40
    windows_per_epoch: int = 2400
    batch_size: int = 16
    epochs: int = 3
    hidden: int = 384
    zoneout: float = 0.1
    lr: float = 1e-3
    weight_decay: float = 1e-4
    max_rul: float = 125.0
