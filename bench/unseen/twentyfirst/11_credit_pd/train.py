"""Fit the PD model.

    python train.py --epochs 2
"""
import argparse
import logging
import tempfile
import time
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn.functional as F

from scorecard import book, callbacks
from scorecard.metrics import MeasureSet
from scorecard.model import DefaultModel

log = logging.getLogger("scorecard")


@dataclass
class FitConfig:
    seed: int = 3
    epochs: int = 2
    batch_size: int = 192
    lr: float = 1.5e-3
    weight_decay: float = 1e-4
    warmup: float = 0.1
    callbacks: List[str] = field(default_factory=lambda: ["LossMonitor", "BatchTrace", "EpochReport", "BestCheckpoint"])
    portfolio: book.BookConfig = field(default_factory=book.BookConfig)


class Fit:
    def __init__(self, cfg: FitConfig):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.directory = tempfile.mkdtemp(prefix="scorecard_")
        train, hold = book.split(book.originate(cfg.portfolio), cfg.seed)
        self.train_loader = book.SliceLoader(train, cfg.batch_size, torch.Generator().manual_seed(cfg.seed))
        self.hold_loader = book.SliceLoader(hold, 4 * cfg.batch_size)
        self.model = DefaultModel(prior=cfg.portfolio.default_rate)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, cfg.lr, total_steps=cfg.epochs * len(self.train_loader), pct_start=cfg.warmup
        )
        self.callbacks = callbacks.build(cfg.callbacks)
        self.train_measures, self.hold_measures = MeasureSet(), MeasureSet()
        self.epoch = self.step = 0
        self.loss = 0.0
        self.stop = False

    def train_batch(self, batch: book.Slice):
        logits = self.model(batch.numeric, batch.categorical)
        loss = F.binary_cross_entropy_with_logits(logits, batch.default)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        self.loss = loss.item()
        self.train_measures.update(logits, batch)

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        self.hold_measures.reset()
        for batch in self.hold_loader:
            self.hold_measures.update(self.model(batch.numeric, batch.categorical), batch)
        self.model.train()
        return self.hold_measures.compute()

    def run(self):
        for self.epoch in range(self.cfg.epochs):
            self.train_measures.reset()
            self.callbacks.fire("on_epoch_begin", self)
            for batch in self.train_loader:
                self.train_batch(batch)
                self.callbacks.fire("on_batch_end", self)
            self.holdout = self.evaluate()
            self.callbacks.fire("on_epoch_end", self)
            if self.stop:
                break


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=FitConfig.epochs)
    p.add_argument("--accounts", type=int, default=book.BookConfig.accounts)
    p.add_argument("--log-level", default="INFO")
    args = p.parse_args()
    logging.basicConfig(level=args.log_level, format="%(asctime)s %(levelname)s %(message)s")
    began = time.perf_counter()
    fit = Fit(FitConfig(epochs=args.epochs, portfolio=book.BookConfig(accounts=args.accounts)))
    log.info("%d train batches per epoch, output in %s", len(fit.train_loader), fit.directory)
    fit.run()
    log.info("finished after %.1fs", time.perf_counter() - began)


if __name__ == "__main__":
    main()
