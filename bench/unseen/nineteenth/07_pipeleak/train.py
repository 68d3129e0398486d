import argparse
import json
from pathlib import Path

import torch
import torch.multiprocessing

from pipeleak.loop import LeakTrainer
from pipeleak.loading import build_loaders
from pipeleak.model import LeakLocator

torch.multiprocessing.set_sharing_strategy("file_system")


def parse():
    parser = argparse.ArgumentParser(description="Leak localisation on water distribution networks")
    parser.add_argument("--settings", type=Path, default=Path("settings.json"))
    parser.add_argument("--epochs", type=int)
    return parser.parse_args()


def main():
    args = parse()
    settings = json.loads(args.settings.read_text())
    if args.epochs is not None:
        settings["epochs"] = args.epochs
    torch.manual_seed(settings["seed"])

    train_loader, holdout_loader = build_loaders(settings)
    model = LeakLocator(**settings["model"])
    trainer = LeakTrainer(model, train_loader, holdout_loader, settings)
    trainer.run()


if __name__ == "__main__":
    main()
