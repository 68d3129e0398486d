"""Isolated sign recognition from body and hand keypoints.

    python train.py [--config config.yaml] [--steps N]
"""
import argparse
from pathlib import Path

import torch
import yaml

import clips  # noqa: F401  (registers)
import pose_transformer  # noqa: F401
from batching import make_loader
from registry import DATASETS, LOSSES, MODELS
from runner import Runner


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default=str(Path(__file__).with_name("config.yaml")))
    ap.add_argument("--steps", type=int)
    args = ap.parse_args()
    cfg = yaml.safe_load(Path(args.config).read_text())
    torch.manual_seed(cfg["seed"])

    data = dict(cfg["data"])
    batch_size, holdout = data.pop("batch_size"), data.pop("holdout")
    train = DATASETS.build(data, seed=cfg["seed"], split="train")
    val = DATASETS.build({**data, "num_clips": holdout}, seed=cfg["seed"], split="val")
    loaders = {"train": make_loader(train, batch_size, cfg["seed"], True),
               "val": make_loader(val, batch_size, cfg["seed"], False)}

    model = MODELS.build(cfg["model"], in_features=3 * data["joints"], num_classes=data["num_glosses"],
                         max_frames=data["max_frames"])
    print(f"{len(train)} clips, {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters", flush=True)
    Runner(model, LOSSES.build(cfg["loss"]), loaders, cfg["optim"], args.steps or cfg["steps"],
           cfg["log_every"], cfg["eval_every"]).run()


if __name__ == "__main__":
    main()
