"""Snow water equivalent from weather history and terrain.

    torchrun --nproc-per-node 2 train.py
"""
import sys

import torch
import yaml

from snow import parallel
from snow.atlas import build_atlas
from snow.engine import Engine
from snow.model import SnowNet
from snow.stations import StationRecords


def main(path="config.yaml"):
    with open(path) as handle:
        cfg = yaml.safe_load(handle)
    rank, world = parallel.setup()
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])

    atlas = build_atlas(cfg["atlas"]["size"], cfg["seed"])
    records = StationRecords(atlas, cfg["stations"], cfg["patch"], cfg["seed"])
    model = SnowNet(atlas, cfg["stations"]["variables"], cfg["patch"], **cfg["model"])

    engine = Engine(model, records, cfg["train"], rank, world, cfg["seed"])
    try:
        engine.fit()
    finally:
        parallel.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
