"""Command line <-> dataclass glue."""
import argparse
from dataclasses import dataclass, fields


@dataclass
class Config:
    seed: int = 3
    num_envs: int = 64
    horizon: int = 32
    updates: int = 30
    epochs: int = 3
    minibatch: int = 256
    lr: float = 4e-4
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float = 0.0      # 0 disables the early stop
    grid: int = 24
    width: int = 16
    log_every: int = 3
    episode_len: int = 60

    @property
    def batch(self):
        return self.num_envs * self.horizon


def parse(argv=None):
    parser = argparse.ArgumentParser("arena")
    for f in fields(Config):
        parser.add_argument("--" + f.name.replace("_", "-"), type=f.type, default=f.default)
    return Config(**vars(parser.parse_args(argv)))
