import argparse
import logging

import torch

from tracksort.events import EventStore
from tracksort.hooks import AssignmentLog, BestCheckpoint, Progress, ShadowWeights, Validation
from tracksort.net import TrackSorter
from tracksort.trainer import Trainer


def arguments():
    p = argparse.ArgumentParser(description="sort detector hits into tracks")
    p.add_argument("--events", type=int, default=5000)
    p.add_argument("--hits", type=int, default=56)
    p.add_argument("--tracks", type=int, default=10)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--width", type=int, default=80)
    p.add_argument("--depth", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--out", default="out")
    p.add_argument("-v", "--verbose", action="store_true")
    return p.parse_args()


def main():
    args = arguments()
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO,
                        format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S")
    torch.manual_seed(args.seed)
    store = EventStore(args.events, args.hits, args.tracks, args.seed)
    train, held_out = store.split(512)
    net = TrackSorter(5, args.width, args.depth, args.tracks)
    hooks = [
        ShadowWeights(0.995),
        AssignmentLog(),
        Progress(every=30),
        Validation(held_out, every=150),
        BestCheckpoint(args.out),
    ]
    Trainer(net, train, args, hooks).run()


if __name__ == "__main__":
    main()
