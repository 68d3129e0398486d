"""Card-fraud scoring over the feature store.   python train.py [--settings settings.json] [--steps N]"""
import argparse
import json
from pathlib import Path

import torch

from feature_store import CATEGORICAL, NUMERIC, FeatureStore
from tabular import NETS
from trainer import Trainer


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--settings", default=str(Path(__file__).with_name("settings.json")))
    ap.add_argument("--net", choices=sorted(NETS), default="ft_transformer")
    ap.add_argument("--steps", type=int)
    args = ap.parse_args()
    cfg = json.loads(Path(args.settings).read_text())
    cfg["steps"] = args.steps or cfg["steps"]
    torch.manual_seed(cfg["seed"])
    store = FeatureStore(seed=cfg["seed"], **cfg["store"])
    net = NETS[args.net](CATEGORICAL, NUMERIC, **cfg["net"])
    print(f"{store.rows} rows, fraud rate {store.label.mean():.3f}", flush=True)
    Trainer(net, store, cfg).fit()


if __name__ == "__main__":
    main()
