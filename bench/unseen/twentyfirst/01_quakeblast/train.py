#!/usr/bin/env python
"""Train the blast discriminator.

    python train.py --config configs/blast.yaml
"""
import argparse
import logging
import random
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from network import BlastNet
from trainer import Trainer
from waveforms import build_loaders


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default=str(Path(__file__).parent / "configs" / "blast.yaml"))
    ap.add_argument("--epochs", type=int, default=None)
    ap.add_argument("--seed", type=int, default=None)
    ap.add_argument("--tag", default="base")
    return ap.parse_args()


def main():
    args = parse_args()
    cfg = yaml.safe_load(Path(args.config).read_text())
    if args.epochs is not None:
        cfg["optim"]["epochs"] = args.epochs
    if args.seed is not None:
        cfg["seed"] = args.seed

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log = logging.getLogger("quakeblast")
    random.seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])

    run_dir = Path(cfg["out_dir"]) / f"quakeblast_{args.tag}"
    run_dir.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    t0 = time.time()
    train_loader, val_loader = build_loaders(cfg)
    log.info("catalog ready in %.1fs: %d train / %d val events", time.time() - t0,
             len(train_loader.dataset), len(val_loader.dataset))
    model = BlastNet(**cfg["model"])
    log.info("%d parameters on %s", sum(p.numel() for p in model.parameters()), device)

    trainer = Trainer(cfg, model, train_loader, val_loader, device, run_dir)
    best = trainer.fit()
    log.info("done: best val AUC %.4f, %.1fs in all", best, time.time() - t0)


if __name__ == "__main__":
    main()
