"""Earthwork mapping on lidar relief: tiles in, feature class / bank line / period out."""
import argparse
import json
from pathlib import Path

import torch

from earthworks.loop import Loop, ProgressPrinter, TaskWeights
from earthworks.metrics import EpochReport, build_suite
from earthworks.network import ReliefNet
from earthworks.survey import SurveyCatalogue, ensure_surveys
from earthworks.tiles import TileDataset, make_loader
from earthworks.losses import MultiTaskLoss


def load_config(path, overrides):
    config = json.loads(Path(path).read_text())
    for item in overrides:
        key, value = item.split("=", 1)
        section, name = key.split(".")
        config[section][name] = json.loads(value)
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="config.json")
    parser.add_argument("--set", nargs="*", default=[], metavar="section.name=value")
    args = parser.parse_args()
    config = load_config(args.config, args.set)

    torch.manual_seed(config["run"]["seed"])
    paths = ensure_surveys(**config["surveys"])
    train_set = TileDataset(SurveyCatalogue(paths[:-1]), augment=True, **config["tiles"])
    val_set = TileDataset(SurveyCatalogue(paths[-1:]), augment=False, **{**config["tiles"], "per_epoch": 64})

    net = ReliefNet(**config["network"])
    criterion = MultiTaskLoss(**config["loss"])
    loop = Loop(
        net,
        criterion,
        torch.optim.AdamW(net.parameters(), lr=config["run"]["lr"], weight_decay=1e-2),
        epochs=config["run"]["epochs"],
        callbacks=[
            EpochReport(build_suite(config["network"]["classes"], config["network"]["periods"])),
            ProgressPrinter(config["run"]["print_every"]),
            TaskWeights(criterion),
        ],
    )
    loop.fit(
        make_loader(train_set, config["run"]["batch_size"], shuffle=True),
        make_loader(val_set, config["run"]["batch_size"], shuffle=False),
    )


if __name__ == "__main__":
    main()
