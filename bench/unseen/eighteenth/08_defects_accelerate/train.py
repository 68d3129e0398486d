"""Surface defects: linear-probe style training of a pooling head on a fixed encoder.

    python train.py --steps 200
"""
import dataclasses

from defects.config import RunConfig, parse_cli
from defects.runner import Runner

if __name__ == "__main__":
    config = parse_cli(RunConfig)
    print({k: v for k, v in dataclasses.asdict(config).items() if k in ("steps", "batch_size", "shards", "seed")})
    Runner(config).run()
