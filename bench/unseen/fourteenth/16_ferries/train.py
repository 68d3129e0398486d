"""Next-position model for ferries from AIS tracks (PyTorch Lightning).

Tracks differ in length (8 to 110 fixes); a causal transformer predicts a mixture over the next displacement.
"""
import gc
import math
import random

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

ROUTES = 40


def sail(n, seed):
    """A list of (T, 5) tracks: x, y, speed, sine and cosine of the course."""
    rng = np.random.default_rng(seed)
    piers = np.random.default_rng(99).uniform(-5, 5, (ROUTES, 2, 2))
    tracks = []
    for route, length, wind in zip(rng.integers(0, ROUTES, n), rng.integers(8, 111, n), rng.normal(0, 0.3, n)):
        a, b = piers[route]
        s = np.linspace(0, 1, length) ** rng.uniform(0.8, 1.3)
        bend = np.sin(np.pi * s)[:, None] * wind * np.array([b[1] - a[1], a[0] - b[0]]) * 0.3
        xy = a + s[:, None] * (b - a) + bend + np.cumsum(rng.normal(0, 0.01, (length, 2)), 0)
        step = np.diff(xy, axis=0, prepend=xy[:1])
        course = np.arctan2(step[:, 1], step[:, 0])
        tracks.append(np.column_stack([xy, np.hypot(*step.T), np.sin(course), np.cos(course)]).astype(np.float32))
    return tracks


class Tracks(Dataset):
    def __init__(self, tracks, augment):
        self.tracks = [torch.from_numpy(t) for t in tracks]
        self.lengths = [len(t) for t in tracks]
        self.augment = augment

    def __len__(self):
        return len(self.tracks)

    def __getitem__(self, i):
        track = self.tracks[i].clone()
        if self.augment:
            angle = random.uniform(-math.pi, math.pi)
            c, s = math.cos(angle), math.sin(angle)
            turn = torch.tensor([[c, s], [-s, c]])
            track[:, :2] = track[:, :2] @ turn
            track[:, [4, 3]] = track[:, [4, 3]] @ turn
        return track


def collate(tracks):
    lengths = torch.tensor([len(t) for t in tracks])
    x = pad_sequence(tracks, batch_first=True)
    delta = (x[:, 1:, :2] - x[:, :-1, :2]) * 10
    mask = torch.arange(x.shape[1] - 1)[None] < (lengths - 1)[:, None]
    return x[:, :-1], delta, mask


class BucketSampler(Sampler):
    """Batches of about the same number of fixes, from tracks of about the same length."""

    def __init__(self, lengths, fixes, shuffle):
        self.fixes, self.shuffle = fixes, shuffle
        self.batches = self.pack(lengths)

    def pack(self, lengths):
        order = sorted(range(len(lengths)), key=lambda i: (lengths[i], random.random()))
        batches, batch = [], []
        for i in order:
            if batch and (len(batch) + 1) * lengths[i] > self.fixes:
                batches.append(batch)
                batch = []
            batch.append(i)
        return batches + [batch]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        if self.shuffle:
            random.shuffle(self.batches)
        return iter(self.batches)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class FerryModel(L.LightningModule):
    def __init__(self, dim=192, depth=4, heads=4, modes=8, lr=6e-4):
        super().__init__()
        self.save_hyperparameters()
        self.inp = nn.Linear(5, dim)
        self.pos = nn.Embedding(128, dim)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, modes * 5)
        self.curve = []

    def forward(self, x):
        h = self.inp(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h)).unflatten(-1, (self.hparams.modes, 5))

    def nll(self, batch):
        x, delta, mask = batch
        out = self(x)[mask]
        logit, mean, logs = out[..., 0], out[..., 1:3], out[..., 3:].clamp(-6, 3)
        z = (delta[mask][:, None] - mean) * torch.exp(-logs)
        comp = -0.5 * z.square().sum(-1) - logs.sum(-1) - math.log(2 * math.pi)
        return -(logit.log_softmax(-1) + comp).logsumexp(-1).mean()

    def training_step(self, batch, batch_idx):
        loss = self.nll(batch)
        value = loss.item()
        self.curve.append(value)
        self.log("train_nll", value, on_step=True, on_epoch=True, batch_size=len(batch[0]))
        print(f"[{self.global_step}] tracks {len(batch[0])} fixes {int(batch[2].sum())} nll {value:.4f}", flush=True)
        if not math.isfinite(value):
            raise RuntimeError("diverged")
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_nll", self.nll(batch), batch_size=len(batch[0]), prog_bar=True)

    def on_train_epoch_end(self):
        gc.collect()
        print(f"mean of the last 50 steps {np.mean(self.curve[-50:]):.4f}")

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01, fused=True)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=self.trainer.estimated_stepping_batches)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class WeightAverage(L.Callback):
    """Keeps an averaged copy of the weights for the harbour office."""

    def __init__(self, every=5, decay=0.9):
        self.every, self.decay, self.average = every, decay, None

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (batch_idx + 1) % self.every:
            return
        weights = [p.detach() for p in module.parameters()]
        if self.average is None:
            self.average = [w.clone() for w in weights]
        torch._foreach_lerp_(self.average, weights, 1 - self.decay)

    def on_train_end(self, trainer, module):
        torch.save(self.average, "/tmp/ferry_average.pt")


if __name__ == "__main__":
    L.seed_everything(8)
    train, val = Tracks(sail(2200, 1), True), Tracks(sail(120, 2), False)
    train_loader = DataLoader(train, batch_sampler=BucketSampler(train.lengths, 1300, True), collate_fn=collate, num_workers=0)
    val_loader = DataLoader(val, batch_sampler=BucketSampler(val.lengths, 2600, False), collate_fn=collate)
    trainer = L.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                        enable_checkpointing=False, gradient_clip_val=1.0, num_sanity_val_steps=0, callbacks=[WeightAverage()])
    trainer.fit(FerryModel(), train_loader, val_loader)
