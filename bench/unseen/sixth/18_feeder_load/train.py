"""Day-ahead load forecasting for distribution feeders with a patch MLP-mixer (Lightning)."""
import logging
import warnings
from dataclasses import dataclass

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


@dataclass
class Config:
    feeders: int = 64
    hours: int = 24 * 200
    history: int = 336
    horizon: int = 24
    patch: int = 12
    width: int = 256
    depth: int = 4
    batch: int = 64
    batches_per_epoch: int = 100
    epochs: int = 3
    lr: float = 1e-3
    seed: int = 77


def simulate_load(cfg):
    rng = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.hours)
    scale, phase = rng.uniform(0.5, 2, (cfg.feeders, 1)), rng.uniform(0, 3, (cfg.feeders, 1))
    daily = np.sin(2 * np.pi * (t + phase) / 24) + 0.4 * np.sin(4 * np.pi * t / 24 + phase)
    weekly = 0.5 * ((t // 24) % 7 < 5)
    drift = np.cumsum(rng.normal(0, 0.03, (cfg.feeders, cfg.hours)), axis=1)
    load = scale * (daily + weekly) + drift + rng.normal(0, 0.15, (cfg.feeders, cfg.hours))
    return torch.from_numpy(load).float()


class Windows:
    def __init__(self, load, cfg):
        span = cfg.history + cfg.horizon
        self.windows = load.unfold(1, span, 1)
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg.seed)

    def __len__(self):
        return self.cfg.batches_per_epoch

    def __iter__(self):
        feeders, starts, _ = self.windows.shape
        for _ in range(len(self)):
            f = torch.randint(feeders, (self.cfg.batch,), generator=self.gen)
            s = torch.randint(starts, (self.cfg.batch,), generator=self.gen)
            w = self.windows[f, s]
            yield w[:, :self.cfg.history], w[:, self.cfg.history:]


class MixerBlock(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, 2 * patches), nn.ReLU(), nn.Linear(2 * patches, patches))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class LoadMixer(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        patches = cfg.history // cfg.patch
        self.embed = nn.Linear(cfg.patch, cfg.width)
        self.blocks = nn.Sequential(*[MixerBlock(patches, cfg.width) for _ in range(cfg.depth)])
        self.head = nn.Linear(cfg.width, cfg.horizon)

    def forward(self, history):
        centre = history.mean(1, keepdim=True)
        x = self.embed((history - centre).unflatten(1, (-1, self.cfg.patch)))
        return self.head(self.blocks(x).mean(1)) + centre

    def training_step(self, batch, batch_idx):
        history, future = batch
        loss = F.smooth_l1_loss(self(history), future)
        if batch_idx % 50 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.cfg.lr, weight_decay=1e-2, fused=True)
        total = self.cfg.epochs * self.cfg.batches_per_epoch
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.cfg.lr, total_steps=total)
        return [opt], [{"scheduler": sched, "interval": "step"}]


def main():
    cfg = Config()
    L.seed_everything(cfg.seed, verbose=False)
    trainer = L.Trainer(max_epochs=cfg.epochs, accelerator="cpu", precision="bf16-mixed", logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(LoadMixer(cfg), Windows(simulate_load(cfg), cfg))


if __name__ == "__main__":
    main()
