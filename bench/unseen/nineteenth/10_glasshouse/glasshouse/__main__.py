import argparse
from pathlib import Path

import torch
import yaml

from .features import FeaturePipeline
from .model import ClimateForecaster
from .simulate import simulate_compartments
from .training import Trainer
from .windows import WindowSampler, split_tables


def main():
    parser = argparse.ArgumentParser(prog="glasshouse")
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    config = yaml.safe_load(args.config.read_text())
    if args.steps:
        config["train"]["steps"] = args.steps
    torch.manual_seed(config["train"]["seed"])

    tables = simulate_compartments(**config["data"])
    pipeline = FeaturePipeline(config["pipeline"], per_day=config["data"]["per_day"])
    train_part, val_part = split_tables(tables, fraction=0.85)
    names, train = pipeline.fit_transform(train_part)
    _, val = pipeline.transform(val_part)
    print(f"{len(names)} features, {train.shape[0]} compartments, {train.shape[1]} + {val.shape[1]} rows")

    targets = [names.index(name) for name in config["targets"]]
    batch = config["train"]["batch_size"]
    train_sampler = WindowSampler(train, targets, batch, seed=1, **config["window"])
    val_sampler = WindowSampler(val, targets, batch, seed=2, **config["window"])
    model = ClimateForecaster(
        features=len(names), targets=len(targets), quantiles=len(config["quantiles"]),
        **config["window"], **config["model"],
    )
    trainer = Trainer(model, config["quantiles"], config["train"], args.out)
    trainer.fit(train_sampler, val_sampler)


if __name__ == "__main__":
    main()
