"""Train a P/S phase picker on three-component seismograms.

The catalogue is exported as compressed shards (one .npz per station and
month in the real archive).  For the demo we synthesise a small archive
first, so that the script runs on its own.
"""
import argparse
import logging
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("picker")


def synth_event(rng, length):
    """Noise plus a P onset and a larger, slower S onset."""
    t = np.arange(length, dtype=np.float32)
    p = int(rng.integers(length // 8, length // 2))
    s = int(min(length - 20, p + rng.integers(40, length // 3)))
    wave = rng.standard_normal((3, length)).astype(np.float32) * 0.15
    for onset, freq, amp, decay in ((p, 0.45, 0.8, 60.0), (s, 0.2, 1.6, 110.0)):
        tail = np.clip(t - onset, 0, None)
        env = np.where(t >= onset, np.exp(-tail / decay), 0.0)
        phase = rng.uniform(0, 2 * np.pi, size=(3, 1))
        gain = rng.uniform(0.5, 1.0, size=(3, 1))
        wave += (amp * gain * env * np.sin(freq * tail + phase)).astype(np.float32)
    return wave, p, s


def export_archive(root, n_shards, per_shard, length, seed):
    rng = np.random.default_rng(seed)
    paths = []
    for k in range(n_shards):
        waves = np.empty((per_shard, 3, length), dtype=np.float32)
        picks = np.empty((per_shard, 2), dtype=np.int32)
        for i in range(per_shard):
            waves[i], picks[i, 0], picks[i, 1] = synth_event(rng, length)
        path = os.path.join(root, f"shard_{k:03d}.npz")
        np.savez_compressed(path, waveforms=waves, picks=picks)
        paths.append(path)
    return paths


class SeismogramDataset(Dataset):
    """Windows with gaussian pick targets: (noise, P, S) per sample."""

    def __init__(self, paths, length, sigma=8.0, augment=False):
        self.paths = paths
        self.length = length
        self.sigma = sigma
        self.augment = augment
        self.index = []
        self.shards = []
        for k, path in enumerate(paths):
            with np.load(path) as z:
                self.shards.append((z["waveforms"], z["picks"]))
                n = len(z["picks"])
            self.index.extend((k, i) for i in range(n))
        self.grid = np.arange(length, dtype=np.float32)

    def __len__(self):
        return len(self.index)

    def _read(self, k, row):
        waveforms, picks = self.shards[k]
        return waveforms[row], picks[row]

    def __getitem__(self, idx):
        k, row = self.index[idx]
        wave, picks = self._read(k, row)
        p, s = int(picks[0]), int(picks[1])
        if self.augment:
            shift = int(np.random.randint(-p // 2, (self.length - s) // 2 + 1))
            wave = np.roll(wave, shift, axis=1)
            p, s = p + shift, s + shift
        wave = wave - wave.mean(axis=1, keepdims=True)
        wave = wave / (wave.std() + 1e-6)
        target = np.empty((3, self.length), dtype=np.float32)
        target[1] = np.exp(-0.5 * ((self.grid - p) / self.sigma) ** 2)
        target[2] = np.exp(-0.5 * ((self.grid - s) / self.sigma) ** 2)
        target[0] = np.clip(1.0 - target[1] - target[2], 0.0, 1.0)
        return torch.from_numpy(wave), torch.from_numpy(target)


def seed_worker(worker_id):
    np.random.seed(torch.initial_seed() % 2**32)


def conv(cin, cout, k=7, stride=1):
    return nn.Sequential(
        nn.Conv1d(cin, cout, k, stride=stride, padding=k // 2, bias=False),
        nn.BatchNorm1d(cout),
        nn.ReLU(inplace=True),
    )


class PickerUNet(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        ch = [width * 2**i for i in range(depth + 1)]
        self.stem = conv(3, ch[0])
        self.down = nn.ModuleList(
            nn.Sequential(conv(ch[i], ch[i + 1], stride=2), conv(ch[i + 1], ch[i + 1]))
            for i in range(depth)
        )
        self.up = nn.ModuleList(
            conv(ch[i + 1] + ch[i], ch[i]) for i in reversed(range(depth))
        )
        self.head = nn.Conv1d(ch[0], 3, 1)

    def forward(self, x):
        skips = [self.stem(x)]
        for block in self.down:
            skips.append(block(skips[-1]))
        h = skips.pop()
        for block in self.up:
            skip = skips.pop()
            h = F.interpolate(h, size=skip.shape[-1], mode="nearest")
            h = block(torch.cat([h, skip], dim=1))
        return self.head(h)


def soft_ce(logits, target):
    return -(target * F.log_softmax(logits, dim=1)).sum(1).mean()


@torch.inference_mode()
def validate(model, loader):
    model.eval()
    hits, total = 0, 0
    for wave, target in loader:
        prob = model(wave).softmax(1)
        diff = (prob[:, 1:].argmax(-1) - target[:, 1:].argmax(-1)).abs()
        hits += (diff <= 10).sum().item()
        total += diff.numel()
    model.train()
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--shards", type=int, default=18)
    ap.add_argument("--per-shard", type=int, default=112)
    ap.add_argument("--length", type=int, default=640)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--width", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=17)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    root = tempfile.mkdtemp(prefix="picker_")
    try:
        paths = export_archive(root, args.shards, args.per_shard, args.length, args.seed)
        log.info("archive with %d shards in %s", len(paths), root)
        train_set = SeismogramDataset(paths[2:], args.length, augment=True)
        val_set = SeismogramDataset(paths[:2], args.length)
        train_loader = DataLoader(
            train_set, batch_size=args.batch_size, shuffle=True, drop_last=True,
            num_workers=args.workers, persistent_workers=True, prefetch_factor=4,
            worker_init_fn=seed_worker,
        )
        val_loader = DataLoader(val_set, batch_size=64)

        model = PickerUNet(args.width)
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
        total = args.epochs * len(train_loader)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=total)

        step, spent = 0, 0.0
        for epoch in range(args.epochs):
            tic = time.perf_counter()
            running = 0.0
            for wave, target in train_loader:
                loss = soft_ce(model(wave), target)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                sched.step()
                running += loss.item()
                step += 1
                if step % 50 == 0:
                    log.info("epoch %d step %d/%d loss %.4f", epoch, step, total, running / 50)
                    running = 0.0
            spent += time.perf_counter() - tic
            log.info("epoch %d: pick accuracy %.3f", epoch, validate(model, val_loader))
        log.info("%d steps, %.1f ms per step", step, 1000 * spent / step)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
