from __future__ import annotations

import argparse
from dataclasses import dataclass, fields


@dataclass
class Options:
    # head model
    grid: int = 24
    layers: int = 16
    optodes: int = 32
    # reconstruction network
    iterations: int = 2
    channels: int = 8
    # training
    steps: int = 300
    batch_size: int = 4
    n_train: int = 720
    n_valid: int = 48
    lr: float = 2e-3
    noise: float = 0.01
    clip: float = 1.0
    log_every: int = 10
    valid_every: int = 150
    snapshot: str = ""
    seed: int = 23

    @classmethod
    def from_command_line(cls) -> "Options":
        parser = argparse.ArgumentParser(description="Learned reconstruction for diffuse optical tomography")
        for item in fields(cls):
            parser.add_argument("--" + item.name.replace("_", "-"), type=type(item.default), default=item.default)
        return cls(**vars(parser.parse_args()))
