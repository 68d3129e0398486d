"""Keyword spotting on synthetic one-second clips: log-mel by FFT, then a depthwise-separable CNN."""
import argparse
import collections
import logging
import math
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 16_000
WORDS = ["up", "down", "left", "right", "go", "stop"]
log = logging.getLogger("kws")


def synth_clip(rng, word):
    """Two chirps whose direction and start depend on the word, in noise."""
    t = np.arange(RATE) / RATE
    base = 300 + 150 * word
    sweep = (-1) ** word * 200
    wave = np.sin(2 * np.pi * (base * t + 0.5 * sweep * t ** 2))
    wave += 0.5 * np.sin(2 * np.pi * (2.1 * base * t - 0.5 * sweep * t ** 2))
    envelope = np.exp(-((t - rng.uniform(0.35, 0.65)) / 0.15) ** 2)
    return (0.5 * wave * envelope + 0.25 * rng.standard_normal(RATE)) * 8000


def record(folder, clips, seed):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, len(WORDS), clips)
    audio = np.stack([synth_clip(rng, w) for w in words]).clip(-32768, 32767).astype(np.int16)
    np.save(folder / "audio.npy", audio)
    np.save(folder / "words.npy", words)


def mel_filters(n_fft, n_mels, low=40.0, high=7600.0):
    def mel(f):
        return 2595 * math.log10(1 + f / 700)

    points = torch.linspace(mel(low), mel(high), n_mels + 2)
    hz = 700 * (10 ** (points / 2595) - 1)
    bins = torch.linspace(0, RATE / 2, n_fft // 2 + 1)
    rise = (bins[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    fall = (hz[2:, None] - bins[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp_min(0)


class Clips(Dataset):
    def __init__(self, folder, max_shift=0):
        self.audio = np.load(folder / "audio.npy", mmap_mode="r")
        self.words = np.load(folder / "words.npy")
        self.max_shift = max_shift

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        wave = torch.from_numpy(self.audio[i].astype(np.float32)) / 32768
        if self.max_shift:
            shift = int(torch.randint(-self.max_shift, self.max_shift + 1, (1,)))
            wave = torch.roll(wave, shift)
        return wave, int(self.words[i])


class LogMel(nn.Module):
    def __init__(self, n_fft=512, hop=160, n_mels=48):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", mel_filters(n_fft, n_mels))

    @torch.no_grad()
    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True).abs().square()
        return torch.log(self.filters @ spec + 1e-6)[:, None]


def separable(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False), nn.BatchNorm2d(cin), nn.ReLU(),
                         nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class KeywordNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.features = LogMel()
        self.stem = nn.Sequential(nn.Conv2d(1, width, (3, 5), 2, (1, 2), bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(separable(width, width, 1), separable(width, 2 * width, 2),
                                    separable(2 * width, 2 * width, 1))
        self.head = nn.Linear(2 * width, len(WORDS))

    def forward(self, wave):
        x = self.blocks(self.stem(self.features(wave)))
        return self.head(x.mean((2, 3)))


@torch.no_grad()
def confusion(model, loader):
    model.eval()
    table = torch.zeros(len(WORDS), len(WORDS), dtype=torch.long)
    for wave, word in loader:
        guess = model(wave).argmax(1)
        table += torch.bincount(word * len(WORDS) + guess, minlength=len(WORDS) ** 2).view_as(table)
    model.train()
    return table


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--clips", type=int, default=1920)
    cli.add_argument("--batch", type=int, default=32)
    cli.add_argument("--epochs", type=int, default=2)
    cli.add_argument("--lr", type=float, default=3e-3)
    cli.add_argument("--seed", type=int, default=8)
    opts = cli.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(opts.seed)

    with tempfile.TemporaryDirectory() as tmp:
        folders = {"train": Path(tmp, "train"), "val": Path(tmp, "val")}
        for k, (name, folder) in enumerate(folders.items()):
            folder.mkdir()
            record(folder, opts.clips if name == "train" else 192, opts.seed + k)
        train = DataLoader(Clips(folders["train"], max_shift=1600), opts.batch, shuffle=True, drop_last=True)
        val = DataLoader(Clips(folders["val"]), opts.batch)
        model = KeywordNet()
        optimizer = torch.optim.AdamW(model.parameters(), lr=opts.lr, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, opts.lr, total_steps=opts.epochs * len(train))
        for epoch in range(opts.epochs):
            losses = collections.deque(maxlen=20)
            for step, (wave, word) in enumerate(train, 1):
                loss = F.cross_entropy(model(wave), word)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.detach())
                if step % 20 == 0:
                    log.info("epoch %d step %d loss %.4f", epoch, step, torch.stack(list(losses)).mean().item())
            table = confusion(model, val)
            log.info("epoch %d val acc %.3f", epoch, (table.diag().sum() / table.sum()).item())


if __name__ == "__main__":
    main()
