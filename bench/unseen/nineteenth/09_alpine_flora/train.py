"""Joint distribution model for alpine plants, trained on field relevés.

    torchrun --nproc-per-node 2 train.py
"""
import argparse
import dataclasses

from flora.config import RunConfig
from flora.data import build_atlas, build_loaders
from flora.engine import Engine
from flora.hooks import CosineWarmup, GradientClip, HeldOutEval, StepPrinter
from flora.losses import ReleveLoss
from flora.model import FloraNet, build_optimizer


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    for field in dataclasses.fields(RunConfig):
        parser.add_argument("--" + field.name.replace("_", "-"), type=type(field.default), default=field.default)
    return RunConfig(**vars(parser.parse_args()))


def main():
    cfg = parse_args()
    engine = Engine(cfg)
    atlas = build_atlas(cfg)
    train_loader, val_loader = build_loaders(cfg, atlas, engine.rank, engine.world_size)

    model = FloraNet(cfg, atlas.layers)
    optimizer = build_optimizer(model, cfg)
    engine.setup(model, optimizer)
    loss = ReleveLoss(cfg.species, atlas.prevalence)

    engine.register(
        GradientClip(cfg.clip),
        CosineWarmup(optimizer, cfg.lr, cfg.warmup, cfg.steps),
        StepPrinter(cfg.print_every),
        HeldOutEval(val_loader, every=cfg.eval_every, batches=cfg.eval_batches),
    )
    engine.fit(train_loader, loss)
    engine.save("checkpoints/flora.pt")
    engine.close()


if __name__ == "__main__":
    main()
