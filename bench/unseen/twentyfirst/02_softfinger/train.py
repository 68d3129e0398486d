"""Proprioception for the soft finger.  Usage: python train.py [--config config.yaml] [train.epochs=4 ...]"""
import argparse
from pathlib import Path

import torch
import yaml

from models import ShapeEstimator
from sensorsim import make_loaders
from trainer import Trainer
from utils import RunLog, seed_everything


def load_config(path, overrides):
    cfg = yaml.safe_load(Path(path).read_text())
    for item in overrides:
        key, value = item.split("=", 1)
        node = cfg
        *parents, leaf = key.split(".")
        for p in parents:
            node = node[p]
        if leaf not in node:
            raise KeyError(f"unknown option {key}")
        node[leaf] = yaml.safe_load(value)
    return cfg


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=Path(__file__).with_name("config.yaml"))
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args()
    cfg = load_config(args.config, args.overrides)
    seed_everything(cfg["seed"])

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    runlog = RunLog(Path(cfg["output"]) / cfg["experiment"])
    loaders = make_loaders(cfg)
    model = ShapeEstimator(cfg["sim"]["channels"], cfg["sim"]["segments"], cfg["model"])
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(loaders[0])} iterations per epoch")

    best = Trainer(model, cfg, loaders, device, runlog).fit()
    print(f"best tip error {best:.4f} (finger lengths)")
    runlog.close()


if __name__ == "__main__":
    main()
