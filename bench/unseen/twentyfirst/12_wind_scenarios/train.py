"""python train.py [--steps N]"""
import argparse
import logging
import tempfile
from pathlib import Path

from windgen.farm import FarmConfig, Portfolio, simulate
from windgen.trainer import AdversarialConfig, AdversarialTrainer


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=AdversarialConfig.steps)
    p.add_argument("--seed", type=int, default=AdversarialConfig.seed)
    args = p.parse_args()

    farm = FarmConfig()
    data = simulate(farm)
    cut = len(data.power) - 400
    train, holdout = Portfolio(*(x[:cut] for x in data)), Portfolio(*(x[cut:] for x in data))
    directory = Path(tempfile.mkdtemp(prefix="windgen_"))
    trainer = AdversarialTrainer(AdversarialConfig(steps=args.steps, seed=args.seed), farm, train, holdout, directory)
    best = trainer.fit()
    logging.info("best energy score %.3f, saved in %s", best, directory)


if __name__ == "__main__":
    main()
