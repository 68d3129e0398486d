import argparse
from dataclasses import dataclass, fields


@dataclass
class Options:
    steps: int = 160
    batch: int = 6
    segment: int = 8192
    files: int = 10
    seconds: int = 120
    rate: int = 16000
    width: int = 12
    dim: int = 64
    codes: int = 256
    quantizers: int = 3
    lr: float = 4e-4
    adv_weight: float = 0.5
    log_every: int = 20
    seed: int = 7

    @classmethod
    def parse(cls):
        ap = argparse.ArgumentParser(prog="python -m codec.train")
        for f in fields(cls):
            ap.add_argument("--" + f.name.replace("_", "-"), type=f.type, default=f.default)
        return cls(**vars(ap.parse_args()))
