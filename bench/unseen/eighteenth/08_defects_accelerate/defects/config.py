import argparse
import dataclasses
from dataclasses import dataclass


@dataclass
class RunConfig:
    seed: int = 3
    steps: int = 200
    batch_size: int = 24
    image_size: int = 64
    shards: int = 48
    images_per_shard: int = 32
    classes: int = 10
    width: int = 24
    pool_heads: int = 4
    lr: float = 2e-3
    weight_decay: float = 1e-4
    clip: float = 1.0
    log_every: int = 50
    label_smoothing: float = 0.05


def parse_cli(cls):
    ap = argparse.ArgumentParser()
    for f in dataclasses.fields(cls):
        ap.add_argument("--" + f.name.replace("_", "-"), type=type(f.default), default=f.default)
    return cls(**vars(ap.parse_args()))
