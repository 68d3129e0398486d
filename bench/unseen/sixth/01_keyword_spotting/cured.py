"""Keyword spotting on one-second clips with a small depthwise-separable CNN."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.signal import get_window, resample_poly
from torch.utils.data import DataLoader, Dataset

KEYWORDS = ["yes", "no", "up", "down", "left", "right", "on", "off"]


def synth_clip(label, rng, sr=16000):
    t = np.arange(sr) / sr
    f0 = 180 + 60 * label + rng.normal(0, 12)
    glide = rng.uniform(-80, 80) + 40 * (label % 3)
    wave = sum(np.sin(2 * np.pi * k * (f0 * t + 0.5 * glide * t ** 2)) / k for k in range(1, 4))
    env = np.exp(-((t - rng.uniform(0.35, 0.65)) ** 2) / 0.03)
    clip = wave * env + rng.normal(0, 0.25, sr)
    return np.int16(np.clip(clip / 4, -1, 1) * 32767)


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filters(sr, n_fft, n_mels, fmin=40.0):
    points = mel_to_hz(np.linspace(hz_to_mel(fmin), hz_to_mel(sr / 2), n_mels + 2))
    bins = np.floor((n_fft + 1) * points / sr).astype(int)
    fb = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for m in range(1, n_mels + 1):
        for k in range(bins[m - 1], bins[m]):
            fb[m - 1, k] = (k - bins[m - 1]) / (bins[m] - bins[m - 1])
        for k in range(bins[m], bins[m + 1]):
            fb[m - 1, k] = (bins[m + 1] - k) / (bins[m + 1] - bins[m])
    return fb


def log_mel(clip, sr=16000, target_sr=8000, n_fft=256, hop=80, n_mels=40):
    wave = resample_poly(clip.astype(np.float32) / 32768.0, target_sr, sr)
    wave = np.append(wave[0], wave[1:] - 0.97 * wave[:-1])
    frames = np.lib.stride_tricks.sliding_window_view(wave, n_fft)[::hop]
    power = np.abs(np.fft.rfft(frames * get_window("hann", n_fft), axis=1)) ** 2
    mel = power @ mel_filters(target_sr, n_fft, n_mels).T
    return np.log(mel + 1e-6).astype(np.float32).T


class SpeechCommands(Dataset):
    def __init__(self, clips, labels, train):
        self.features = [torch.from_numpy(log_mel(c)) for c in clips]
        self.labels = labels
        self.train = train

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        x = self.features[i]
        x = (x - x.mean()) / (x.std() + 1e-5)
        if self.train:
            f0, t0 = random.randint(0, 34), random.randint(0, x.shape[1] - 12)
            x[f0:f0 + 6] = 0
            x[:, t0:t0 + 12] = 0
        return x.unsqueeze(0), self.labels[i]


class DSConv(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depthwise = nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False)
        self.pointwise = nn.Conv2d(c, c, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        x = F.relu(self.bn1(self.depthwise(x)))
        return F.relu(self.bn2(self.pointwise(x)))


def build_model(width, n_classes):
    return nn.Sequential(
        nn.Conv2d(1, width, (10, 4), stride=(2, 4), padding=(5, 1), bias=False),
        nn.BatchNorm2d(width), nn.ReLU(),
        *[DSConv(width) for _ in range(3)],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, n_classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--clips", type=int, default=1024)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    labels = rng.integers(0, len(KEYWORDS), args.clips).tolist()
    clips = [synth_clip(y, rng) for y in labels]

    loader = DataLoader(SpeechCommands(clips, labels, train=True), batch_size=args.batch_size,
                        shuffle=True, drop_last=True)
    model = build_model(args.width, len(KEYWORDS))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)

    for epoch in range(args.epochs):
        seen = correct = 0
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += (logits.argmax(1) == y).sum().item()
            seen += len(y)
        sched.step()
        print(f"epoch {epoch:2d}  loss {loss.item():.4f}  acc {correct / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
