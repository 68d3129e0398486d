"""Small image classifier with the in-house fit loop.

    python train.py
    python train.py --steps 80
"""
import argparse

import torch
from torch import nn

from minifit.callbacks import BestKeeper, Clip, EMA, Mixup, OneCycle, Recorder, StopAfter
from minifit.data import glyph_loaders
from minifit.learner import Learner
from minifit.models import GlyphNet


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=360)
    ap.add_argument("--bs", type=int, default=96)
    ap.add_argument("--width", type=int, default=20)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    loaders = glyph_loaders(args.bs, seed=args.seed)
    model = GlyphNet(width=args.width, classes=10)
    learner = Learner(
        model,
        loaders,
        loss_func=nn.CrossEntropyLoss(),
        opt_func=lambda ps: torch.optim.AdamW(ps, lr=args.lr, weight_decay=1e-2),
        callbacks=[
            OneCycle(max_lr=args.lr, total=args.steps),
            Mixup(alpha=0.2),
            Clip(1.0),
            EMA(decay=0.99),
            Recorder(every=50),
            BestKeeper(),
            StopAfter(args.steps),
        ],
    )
    learner.fit(epochs=1000)


if __name__ == "__main__":
    main()
