import json
import logging
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from evaluation import format_report, score_report

log = logging.getLogger("quakeblast")


class Trainer:
    def __init__(self, cfg, model, train_loader, val_loader, device, run_dir):
        self.cfg = cfg
        self.model = model.to(device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.device = device
        self.run_dir = run_dir
        o = cfg["optim"]
        self.opt = torch.optim.AdamW(model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
        total = o["epochs"] * len(train_loader)
        warm = o["warmup_steps"]

        def schedule(step):
            if step < warm:
                return (step + 1) / warm
            return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))

        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, schedule)
        self.step = 0
        self.best = -1.0
        self.history = []

    def loss(self, logits, y):
        eps = self.cfg["optim"]["label_smoothing"]
        return F.binary_cross_entropy_with_logits(logits, y * (1 - eps) + 0.5 * eps)

    def train_epoch(self, epoch):
        self.model.train()
        self.train_loader.dataset.set_epoch(epoch)
        running, t0 = torch.zeros((), device=self.device), time.time()
        for i, (x, y) in enumerate(self.train_loader, 1):
            x, y = x.to(self.device), y.to(self.device)
            loss = self.loss(self.model(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["optim"]["grad_clip"])
            self.opt.step()
            self.sched.step()
            self.step += 1
            running += loss.detach()
            if i % self.cfg["log_every"] == 0:
                log.info("epoch %d  it %d/%d  loss %.4f  lr %.2e  %.1fs", epoch, i, len(self.train_loader),
                         running.item() / i, self.sched.get_last_lr()[0], time.time() - t0)
        return running.item() / len(self.train_loader)

    @torch.no_grad()
    def predict(self, loader):
        self.model.eval()
        ys, ps = [], []
        for x, y in loader:
            ps.append(torch.sigmoid(self.model(x.to(self.device))).cpu())
            ys.append(y)
        return torch.cat(ys).numpy().astype(int), torch.cat(ps).numpy().astype(np.float64)

    def validate(self, epoch):
        y, p = self.predict(self.val_loader)
        e = self.cfg["eval"]
        report = score_report(y, p, n_boot=e["n_boot"], level=e["ci_level"])
        log.info("epoch %d  val  %s", epoch, format_report(report))
        return report

    def save(self, name, epoch):
        torch.save({"model": self.model.state_dict(), "epoch": epoch, "cfg": self.cfg}, self.run_dir / name)

    def fit(self):
        epochs = self.cfg["optim"]["epochs"]
        for epoch in range(1, epochs + 1):
            train_loss = self.train_epoch(epoch)
            report = self.validate(epoch)
            self.history.append({"epoch": epoch, "train_loss": train_loss, **report})
            if report["scores"]["auc"] > self.best:
                self.best = report["scores"]["auc"]
                self.save("best.pt", epoch)
        (self.run_dir / "history.json").write_text(json.dumps(self.history, indent=2))
        return self.best
