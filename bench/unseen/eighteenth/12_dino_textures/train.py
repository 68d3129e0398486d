"""Self-distillation with multi-crop views.  python train.py [--config config.json] [--steps N]"""
import argparse
import json
import time

import torch

from monitor import CollapseMonitor
from networks import Encoder, Teacher
from objective import DinoLoss
from store import Shards
from stream import Stream
from views import MultiCrop


def build(cfg):
    torch.manual_seed(cfg["seed"])
    stream = Stream(Shards(cfg["images"], cfg["side"], cfg["seed"]), MultiCrop(cfg["views"]),
                    cfg["batch"], cfg["seed"])
    student = Encoder(**cfg["model"])
    teacher = Teacher(student, steps=cfg["steps"], **cfg["ema"])
    loss = DinoLoss(cfg["model"]["prototypes"], **cfg["loss"])
    return stream, student, teacher, loss


def train(cfg):
    stream, student, teacher, criterion = build(cfg)
    opt = torch.optim.AdamW(student.parameters(), lr=cfg["optim"]["lr"],
                            weight_decay=cfg["optim"]["weight_decay"])
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / cfg["optim"]["warmup"]))
    monitor = CollapseMonitor(cfg["monitor"]["rows"], cfg["model"]["embed"])
    n_global, n_views = cfg["views"][0]["count"], sum(v["count"] for v in cfg["views"])
    began = time.time()
    for step, views in zip(range(1, cfg["steps"] + 1), stream):
        z, scores = student(views)
        _, targets = teacher(views[:n_global])
        loss = criterion(scores, targets, n_views, n_global)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        warm.step()
        teacher.follow(student)
        monitor.observe(z[: n_global * cfg["batch"]])
        if step % cfg["monitor"]["every"] == 0 or step == cfg["steps"]:
            state = " ".join(f"{k} {v:.2f}" for k, v in monitor.read().items())
            print(f"step {step} loss {loss.item():.4f} {state} "
                  f"{time.time() - began:.1f}s", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="config.json")
    ap.add_argument("--steps", type=int)
    args = ap.parse_args()
    with open(args.config) as f:
        cfg = json.load(f)
    if args.steps:
        cfg["steps"] = args.steps
    train(cfg)


if __name__ == "__main__":
    main()
