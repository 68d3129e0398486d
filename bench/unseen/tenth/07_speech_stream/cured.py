"""Keyword spotting from tar shards of wav files, streamed with an IterableDataset."""
import argparse
import logging
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from audio import SAMPLE_RATE, LogMel, RoomAndNoise, decode_wav, encode_wav

log = logging.getLogger("kws")
WORDS = ["up", "down", "left", "right", "stop", "go", "yes", "no", "on", "off"]


def synth_word(label, rng, seconds):
    n = int(seconds * SAMPLE_RATE)
    t = np.arange(n) / SAMPLE_RATE
    f0 = rng.uniform(90, 220)
    sweep = 1 + 0.3 * np.sin(2 * np.pi * (0.5 + 0.3 * label) * t)
    phase = 2 * np.pi * np.cumsum(f0 * sweep) / SAMPLE_RATE
    formants = [300 + 60 * label, 1000 + 150 * ((label * 3) % 10), 2400]
    x = np.zeros(n)
    for k in range(1, 12):
        gain = sum(np.exp(-((k * f0 - f) / 200.0) ** 2) for f in formants)
        x += (gain + 0.02) * np.sin(k * phase)
    return (0.3 * x / np.abs(x).max()).astype(np.float32)


def write_shards(folder, n_shards, per_shard, seconds, seed):
    rng = np.random.default_rng(seed)
    paths = []
    for s in range(n_shards):
        path = folder / f"shard-{s:03d}.tar"
        with tarfile.open(path, "w") as tar:
            for i in range(per_shard):
                label = int(rng.integers(len(WORDS)))
                raw = encode_wav(synth_word(label, rng, seconds))
                info = tarfile.TarInfo(f"{s:03d}_{i:04d}.{WORDS[label]}.wav")
                info.size = len(raw)
                tar.addfile(info, BytesIO(raw))
        paths.append(path)
    return paths


class SpeechShards(IterableDataset):
    """Streams (features, label) from shards; endless and augmented for training."""

    def __init__(self, shards, train, seed=0):
        self.shards = list(shards)
        self.train = train
        self.seed = seed
        self.features = LogMel()
        self.augment = RoomAndNoise(seed=seed)

    def _read(self, path):
        with tarfile.open(path, "r") as tar:
            for member in tar:
                word = member.name.split(".")[1]
                yield tar.extractfile(member).read(), WORDS.index(word)

    def _examples(self, shards, rng):
        epoch = 0
        while True:
            order = list(shards)
            if self.train:
                np.random.default_rng(self.seed + epoch).shuffle(order)
            for path in order:
                for raw, label in self._read(path):
                    x = decode_wav(raw)
                    if self.train:
                        x = self.augment(x, rng)
                    yield self.features(x), label
            epoch += 1
            if not self.train:
                return

    def __iter__(self):
        info = get_worker_info()
        rank, world = (info.id, info.num_workers) if info else (0, 1)
        rng = np.random.default_rng([self.seed, rank])
        yield from self._examples(self.shards[rank::world], rng)


class ConvNet(nn.Module):
    def __init__(self, n_mels=64, width=64, n_classes=len(WORDS)):
        super().__init__()
        self.stem = nn.Conv1d(n_mels, width, 5, stride=2, padding=2)
        blocks = []
        for d in (1, 2, 4):
            blocks += [nn.Conv1d(width, width, 5, padding=2 * d, dilation=d),
                       nn.BatchNorm1d(width), nn.ReLU()]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.stem(x))).mean(-1))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        total += y.numel()
    model.train()
    return right / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--seconds", type=float, default=2.5)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--val-every", type=int, default=150)
    p.add_argument("--log-every", type=int, default=50)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(7)

    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        (root / "train").mkdir()
        (root / "val").mkdir()
        train_shards = write_shards(root / "train", 8, 40, args.seconds, seed=1)
        val_shards = write_shards(root / "val", 2, 32, args.seconds, seed=2)
        train = DataLoader(SpeechShards(train_shards, train=True), batch_size=args.batch_size,
                           num_workers=args.workers, prefetch_factor=4)
        val = DataLoader(SpeechShards(val_shards, train=False), batch_size=32)

        model = ConvNet()
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
        running, start = 0.0, time.perf_counter()
        for step, (x, y) in enumerate(train, 1):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
            if step % args.log_every == 0:
                log.info("step %d loss %.4f (%.1f ms/step)", step, running.item() / args.log_every,
                         1000 * (time.perf_counter() - start) / step)
                running = 0.0
            if step % args.val_every == 0:
                log.info("step %d val acc %.3f", step, validate(model, val))
            if step == args.steps:
                break
        took = time.perf_counter() - start
        torch.save(model.state_dict(), root / "final.pt")
        log.info("finished %d steps, %.2f ms/step", args.steps, 1000 * took / args.steps)


if __name__ == "__main__":
    main()
