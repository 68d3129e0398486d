import copy
import gc
import time

import numpy as np
import torch

from tabular import focal_bce


def roc_auc(score, y):
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(1, len(score) + 1)
    pos = y.sum()
    return (rank[y == 1].sum() - pos * (pos + 1) / 2) / max(pos * (len(y) - pos), 1)


class Trainer:
    def __init__(self, net, store, cfg):
        self.net, self.store, self.cfg = net, store, cfg
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=1e-4)
        self.ema = copy.deepcopy(net).requires_grad_(False)
        self.best, self.best_state, self.callbacks = 0.0, None, [self._watch, self._report, self._validate]

    @torch.no_grad()
    def _update_ema(self):
        for e, p in zip(self.ema.parameters(), self.net.parameters()):
            e.lerp_(p, 1 - self.cfg["ema"])

    def _watch(self, step, loss):
        if step % 50 == 0 and not torch.isfinite(loss).item():
            raise FloatingPointError(f"loss at step {step}")

    def _report(self, step, loss):
        if step % self.cfg["log_every"] == 0:
            mean = torch.stack(self.window).mean().item()
            self.window.clear()
            print(f"step {step:4d} focal {mean:.4f} {time.perf_counter() - self.t0:.1f}s", flush=True)

    @torch.no_grad()
    def _validate(self, step, loss):
        if step % self.cfg["eval_every"]:
            return
        scores, labels = [], []
        for batch, y in self.store.sweep("valid", 1000):
            scores.append(self.ema(batch))
            labels.append(y)
        auc = roc_auc(torch.cat(scores).numpy(), torch.cat(labels).numpy())
        print(f"step {step:4d} valid auc {auc:.4f}", flush=True)
        if auc > self.best:
            self.best, self.best_state = auc, copy.deepcopy(self.ema.state_dict())
        gc.collect()

    def fit(self):
        self.t0, self.window = time.perf_counter(), []
        stream = self.store.stream("train", self.cfg["batch"], self.cfg["seed"])
        for step in range(1, self.cfg["steps"] + 1):
            batch, y = next(stream)
            loss = focal_bce(self.net(batch), y)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            self._update_ema()
            self.window.append(loss.detach())
            for callback in self.callbacks:
                callback(step, loss.detach())
