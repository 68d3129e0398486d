"""Train a daily streamflow model.  usage: python train.py [configs/base.toml]"""
import sys

from riverflow.config import load_config
from riverflow.engine import Trainer
from riverflow.log import setup_logging
from riverflow.registry import DATASETS, HOOKS, MODELS
from riverflow import data, hooks, models  # noqa: F401  (fills the registries)


def main():
    cfg = load_config(sys.argv[1] if len(sys.argv) > 1 else "configs/base.toml")
    setup_logging(cfg["run"]["log_level"])
    train_set = DATASETS.build(cfg["data"], split="train", seed=cfg["run"]["seed"])
    val_set = DATASETS.build(cfg["data"], split="val", seed=cfg["run"]["seed"])
    model = MODELS.build(cfg["model"], n_features=train_set.n_features, n_static=train_set.n_static,
                         horizon=train_set.horizon)
    trainer = Trainer(model, train_set, val_set, cfg, hooks=[HOOKS.build(h) for h in cfg["hooks"]])
    trainer.fit()


if __name__ == "__main__":
    main()
