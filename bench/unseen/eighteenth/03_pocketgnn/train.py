"""Pocket affinity regression.   python train.py [-c experiment.json] [key=value ...]"""
import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel

from graphs import pocket_graph
from net import PocketNet, affinity_loss
from packing import batches
from pockets import PocketArchive


def load_config():
    ap = argparse.ArgumentParser()
    ap.add_argument("-c", "--config", default=str(Path(__file__).with_name("experiment.json")))
    ap.add_argument("overrides", nargs="*")
    args = ap.parse_args()
    cfg = json.loads(Path(args.config).read_text())
    for item in args.overrides:
        key, value = item.split("=", 1)
        node, *rest = cfg, *key.split(".")
        while len(rest) > 1:
            node = node[rest.pop(0)]
        node[rest[0]] = json.loads(value)
    return cfg


def update(model, optimizer, batch):
    pred = model(batch)
    loss = affinity_loss(pred, batch.y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.detach()


def fit(cfg):
    torch.manual_seed(cfg["seed"])
    archive = PocketArchive(cfg)
    to_graph = partial(pocket_graph, bins=cfg["net"]["angle_bins"], **cfg["graph"])
    model = PocketNet(cutoff=cfg["graph"]["cutoff"], **cfg["net"])
    averaged = AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters(), **cfg["adam"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg["steps"])
    stream = batches(archive, to_graph, cfg["batch_graphs"], cfg["seed"])

    running, t0 = torch.zeros(()), time.perf_counter()
    for step in range(1, cfg["steps"] + 1):
        running += update(model, optimizer, next(stream))
        schedule.step()
        if step >= cfg["swa_from"] and step % 10 == 0:
            averaged.update_parameters(model)
        if step % cfg["log_every"] == 0:
            print(f"[{step}/{cfg['steps']}] huber {running.item() / cfg['log_every']:.4f} "
                  f"({time.perf_counter() - t0:.1f}s)", flush=True)
            running.zero_()


if __name__ == "__main__":
    fit(load_config())
