import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from .runlog import RunLog


class Trainer:
    def __init__(self, model, params, train_set, test_set, cfg, run_dir):
        self.model, self.params, self.cfg = model, params, cfg
        g = torch.Generator().manual_seed(cfg.seed)
        self.loader = DataLoader(train_set, cfg.batch, shuffle=True, drop_last=True, generator=g)
        self.test_set = test_set
        self.optimizer = torch.optim.AdamW(params, lr=cfg.lr, weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, cfg.lr, total_steps=cfg.steps)
        self.log = RunLog(run_dir)
        self.names = [n for n, p in model.named_parameters() if p.requires_grad]

    def step(self, ids, ddg):
        loss = F.smooth_l1_loss(self.model(ids), ddg)
        self.optimizer.zero_grad()
        loss.backward()
        stats = RunLog.describe(self.names, [p.grad for p in self.params])
        norm = torch.nn.utils.clip_grad_norm_(self.params, self.cfg.clip)
        self.optimizer.step()
        self.schedule.step()
        return loss.item(), norm.item(), stats

    def fit(self):
        done = 0
        self.model.train()
        while done < self.cfg.steps:
            for ids, ddg in self.loader:
                loss, norm, stats = self.step(ids, ddg)
                done += 1
                scalars = {"loss": loss, "norm": norm, "lr": self.schedule.get_last_lr()[0]}
                self.log.write(done, scalars, stats)
                if done % self.cfg.log_every == 0:
                    print(f"{done:4d}/{self.cfg.steps}  loss={loss:.4f}  grad={norm:.3f}", flush=True)
                if done == self.cfg.steps:
                    break
        return self.evaluate()

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        ids, ddg = self.test_set.tensors
        pred = torch.cat([self.model(c) for c in ids.split(64)])
        return torch.corrcoef(torch.stack([pred, ddg]))[0, 1].item()
