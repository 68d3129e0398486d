import tomllib
from pathlib import Path

import torch


def load_config(path):
    path = Path(__file__).resolve().parent.parent / path
    with open(path, "rb") as f:
        cfg = tomllib.load(f)
    torch.manual_seed(cfg["run"]["seed"])
    return cfg
