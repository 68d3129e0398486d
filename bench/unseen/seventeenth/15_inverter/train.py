"""Fault classification for three-phase inverters from current windows; data-parallel over two processes.

    torchrun --standalone --nproc-per-node 2 train.py
"""
import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FAULTS = ("healthy", "open_T1", "open_T4", "short_turn", "gate_misfire", "sensor_drift", "dc_ripple")


def simulate_windows(n, length, seed):
    """Phase currents with the signature of each fault; amplitude, frequency and load angle vary between windows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(FAULTS), n)
    t = np.arange(length) / length
    cycles, phase = rng.uniform(2, 4, (n, 1)), rng.uniform(0, 2 * np.pi, (n, 1))
    amp = rng.uniform(0.6, 1.4, (n, 1, 1))
    theta = 2 * np.pi * cycles * t + phase
    x = np.stack([np.sin(theta - k * 2 * np.pi / 3) for k in range(3)], 1)
    x += 0.06 * np.sin(5 * theta)[:, None] + 0.04 * np.sin(7 * theta)[:, None]
    x[y == 1, 0] = np.minimum(x[y == 1, 0], 0.1)
    x[y == 2, 0] = np.maximum(x[y == 2, 0], -0.1)
    x[y == 3, 1] *= 1.18
    misfire = (y == 4)[:, None] & (rng.random((n, length)) < 0.06)
    x[:, 2] = np.where(misfire, 0.0, x[:, 2])
    x[y == 5, 2] += np.linspace(0, 0.35, length)
    x[y == 6] *= 1 + 0.15 * np.sin(6 * np.pi * cycles[y == 6] * t)[:, None]
    x = amp * x + 0.08 * rng.standard_normal(x.shape)
    return x.astype(np.float32), y.astype(np.int64)


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(n_in, n_out, 5, stride, 2, bias=False), nn.GroupNorm(8, n_out), nn.ReLU(),
            nn.Conv1d(n_out, n_out, 5, 1, 2, bias=False), nn.GroupNorm(8, n_out))
        self.skip = nn.Conv1d(n_in, n_out, 1, stride) if stride != 1 or n_in != n_out else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class FaultNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 192), depth=2):
        super().__init__()
        layers, n_in = [nn.Conv1d(3, widths[0], 9, 2, 4), nn.ReLU()], widths[0]
        for w in widths:
            for k in range(depth):
                layers.append(Block(n_in, w, 2 if k == 0 else 1))
                n_in = w
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, len(FAULTS)))

    def forward(self, x):
        return self.head(self.features(x).mean(2))


class WeightAverage:
    """Exponential moving average of the weights, used for validation and for the exported model."""

    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        for name, param in model.named_parameters():
            self.shadow[name].lerp_(param.detach(), 1.0 - self.decay)
        self.synchronise()

    def synchronise(self):
        for value in self.shadow.values():
            dist.all_reduce(value)
            value /= dist.get_world_size()

    @torch.no_grad()
    def swap_in(self, model):
        for name, param in model.named_parameters():
            self.backup[name] = param.detach().clone()
            param.copy_(self.shadow[name])

    @torch.no_grad()
    def swap_out(self, model):
        for name, param in model.named_parameters():
            param.copy_(self.backup.pop(name))


class Trainer:
    def __init__(self, args, rank, world):
        self.args, self.rank, self.world = args, rank, world
        self.dir = Path(tempfile.mkdtemp(prefix=f"inverter_rank{rank}_"))
        x, y = simulate_windows(args.windows, args.length, seed=4)
        cut = int(0.9 * len(x))
        self.train_set = TensorDataset(torch.from_numpy(x[:cut]), torch.from_numpy(y[:cut]))
        val_set = TensorDataset(torch.from_numpy(x[cut:]), torch.from_numpy(y[cut:]))
        self.sampler = DistributedSampler(self.train_set, world, rank, shuffle=True, seed=9, drop_last=True)
        self.train_loader = DataLoader(self.train_set, args.batch_size, sampler=self.sampler, drop_last=True)
        self.val_loader = DataLoader(val_set, 128, sampler=DistributedSampler(val_set, world, rank, shuffle=False))
        self.model = FaultNet()
        self.ddp = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, args.epochs * len(self.train_loader))
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.average = WeightAverage(self.model)
        self.step, self.history = 0, []

    def log(self, message):
        if self.rank == 0:
            print(message, flush=True)

    def train_epoch(self, epoch):
        self.ddp.train()
        self.sampler.set_epoch(epoch)
        start = time.time()
        for i, (x, y) in enumerate(self.train_loader, 1):
            loss = self.criterion(self.ddp(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.average.update(self.model)
            self.step += 1
            if self.step % 25 == 0:
                rate = i * self.args.batch_size * self.world / (time.time() - start)
                self.log(f"epoch {epoch} step {self.step} loss {loss.item():.5f} {rate:.0f} windows/s")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        self.average.swap_in(self.model)
        confusion = torch.zeros(len(FAULTS), len(FAULTS), dtype=torch.long)
        for x, y in self.val_loader:
            pred = self.model(x).argmax(1)
            confusion += torch.bincount(y * len(FAULTS) + pred, minlength=confusion.numel()).view_as(confusion)
        self.average.swap_out(self.model)
        dist.all_reduce(confusion)
        recall = confusion.diag() / confusion.sum(1).clamp(min=1)
        return (confusion.diag().sum() / confusion.sum()).item(), dict(zip(FAULTS, recall.tolist()))

    def fit(self):
        for epoch in range(self.args.epochs):
            self.train_epoch(epoch)
            accuracy, recall = self.validate()
            self.history.append({"epoch": epoch, "accuracy": accuracy, **recall})
            self.log(f"epoch {epoch} accuracy {accuracy:.4f} worst recall {min(recall.values()):.3f}")
            if self.rank == 0:
                torch.save({"model": self.model.state_dict(), "average": self.average.shadow, "step": self.step},
                           self.dir / "last.pt")
        if self.rank == 0:
            (self.dir / "history.json").write_text(json.dumps(self.history, indent=1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--windows", type=int, default=8000)
    ap.add_argument("--length", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(17)
    try:
        Trainer(args, rank, world).fit()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
