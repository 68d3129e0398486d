"""Two-tower retrieval.  python train.py [--set steps=200 ...]"""
import argparse

import torch

from recsys import settings
from recsys.catalog import Catalog
from recsys.loader import build_loader
from recsys.towers import TwoTower
from recsys.trainer import Trainer, Progress, RecallProbe


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    cfg = settings.load(ap.parse_args().set)
    torch.manual_seed(cfg.seed)
    catalog = Catalog(cfg)
    loader = build_loader(catalog, cfg)
    model = TwoTower(cfg)
    hooks = [Progress(cfg.report), RecallProbe(cfg.report)]
    Trainer(model, loader, cfg, hooks).run()


if __name__ == "__main__":
    main()
