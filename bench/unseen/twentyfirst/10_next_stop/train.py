"""python train.py [--epochs N] [--trips N]"""
import argparse
import json
import logging
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from nextstop.config import RunConfig
from nextstop.network import NextStopNetwork
from nextstop.objectives import SpatialCrossEntropy, StopMetrics
from nextstop.trips import make_loader, simulate

log = logging.getLogger("nextstop")


class Run:
    def __init__(self, cfg: RunConfig):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        np.random.seed(cfg.seed)
        self.dir = Path(tempfile.mkdtemp(prefix="nextstop_"))
        (self.dir / "config.json").write_text(json.dumps(asdict(cfg), indent=2))

        trips = simulate(cfg.city)
        n_val = min(1280, len(trips) // 10)
        self.train_loader = make_loader(trips[n_val:], cfg.optim.batch_size, cfg.seed, train=True)
        self.val_loader = make_loader(trips[:n_val], 2 * cfg.optim.batch_size, cfg.seed, train=False)

        self.net = NextStopNetwork(cfg.city, cfg.network)
        self.criterion = SpatialCrossEntropy(cfg.city, cfg.optim)
        self.metrics = StopMetrics(cfg.city)
        decay = [p for p in self.net.parameters() if p.ndim > 1]
        plain = [p for p in self.net.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": cfg.optim.weight_decay}, {"params": plain, "weight_decay": 0.0}],
            lr=cfg.optim.lr,
        )
        self.total = cfg.optim.epochs * len(self.train_loader)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._factor)
        self.step, self.best, self.stale = 0, float("inf"), 0

    def _factor(self, step: int) -> float:
        warm = self.cfg.optim.warmup
        if step < warm:
            return (step + 1) / warm
        return max(0.05, 1 - (step - warm) / max(1, self.total - warm))

    @torch.inference_mode()
    def validate(self):
        self.net.eval()
        self.metrics.reset()
        for batch in self.val_loader:
            self.metrics.update(self.net(batch), batch.target)
        self.net.train()
        return self.metrics.compute()

    def train_step(self, batch) -> float:
        loss = self.criterion(self.net(batch), batch.target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.cfg.optim.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        return loss.item()

    def keep_if_better(self, result) -> bool:
        if result["zones_off"] < self.best:
            self.best, self.stale = result["zones_off"], 0
            torch.save({"net": self.net.state_dict(), "step": self.step, **result}, self.dir / "best.pt")
        else:
            self.stale += 1
        return self.stale > self.cfg.optim.patience

    def fit(self):
        self.net.train()
        smooth, began = None, time.perf_counter()
        for epoch in range(self.cfg.optim.epochs):
            for batch in self.train_loader:
                loss = self.train_step(batch)
                smooth = loss if smooth is None else 0.97 * smooth + 0.03 * loss
                if self.step % self.cfg.optim.val_every == 0:
                    result = self.validate()
                    log.info("epoch %d step %d/%d loss %.3f %s %.1fs", epoch, self.step, self.total, smooth,
                             " ".join(f"{k} {v:.3f}" for k, v in result.items()), time.perf_counter() - began)
                    if self.keep_if_better(result):
                        log.info("stopping early")
                        return
        log.info("done: %d steps, best error %.2f zones, %s", self.step, self.best, self.dir)


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int)
    p.add_argument("--trips", type=int)
    args = p.parse_args()
    cfg = RunConfig()
    if args.epochs is not None:
        cfg.optim.epochs = args.epochs
    if args.trips is not None:
        cfg.city.trips = args.trips
    Run(cfg).fit()


if __name__ == "__main__":
    main()
