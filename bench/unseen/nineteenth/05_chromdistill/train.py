import argparse

import torch

from chromdistill.builder import build_experiment
from chromdistill.config import load_config


def main():
    parser = argparse.ArgumentParser(description="Self-distillation on GC chromatograms")
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE",
                        help="override a dotted config key, e.g. train.epochs=1")
    args = parser.parse_args()

    cfg = load_config(args.config, args.set)
    torch.manual_seed(cfg.seed)
    experiment = build_experiment(cfg)
    experiment.fit()


if __name__ == "__main__":
    main()
