import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.autograd.set_detect_anomaly(True)

SR = 16_000
N_FFT = 512
HOP = 256
N_MELS = 80
WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off"]


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filterbank(sr, n_fft, n_mels):
    freqs = np.linspace(0, sr / 2, n_fft // 2 + 1)
    edges = mel_to_hz(np.linspace(hz_to_mel(20.0), hz_to_mel(sr / 2), n_mels + 2))
    fb = np.zeros((n_mels, len(freqs)), dtype=np.float32)
    for m in range(n_mels):
        rising = (freqs - edges[m]) / (edges[m + 1] - edges[m])
        falling = (edges[m + 2] - freqs) / (edges[m + 2] - edges[m + 1])
        fb[m] = np.maximum(0.0, np.minimum(rising, falling))
        fb[m] *= 2.0 / (edges[m + 2] - edges[m])
    return fb


def synth_clip(label, rng):
    t = np.arange(SR // 2) / SR
    f0 = 180 + 90 * label + rng.normal(0, 12)
    glide = (label % 3 - 1) * 120 * t
    x = sum(np.sin(2 * np.pi * (h * f0 * t + h * glide * t)) / h for h in (1, 2, 3))
    env = np.exp(-((t - 0.25 + rng.normal(0, 0.03)) ** 2) / 0.01)
    return (x * env + rng.normal(0, 0.2, t.shape)).astype(np.float32)


class Keywords(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(WORDS), n)
        self.clips = [synth_clip(c, rng) for c in self.labels]
        self.window = np.hanning(N_FFT).astype(np.float32)
        self.fb = mel_filterbank(SR, N_FFT, N_MELS)

    def __len__(self):
        return len(self.labels)

    def features(self, wave):
        frames = np.lib.stride_tricks.sliding_window_view(wave, N_FFT)[::HOP]
        power = np.abs(np.fft.rfft(frames * self.window)) ** 2
        return np.log(self.fb @ power.T.astype(np.float32) + 1e-6)

    def __getitem__(self, i):
        wave = self.clips[i] * np.random.uniform(0.7, 1.3)
        return torch.from_numpy(self.features(wave)).unsqueeze(0).float(), int(self.labels[i])


class SepConv(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.dw = nn.Conv2d(ch, ch, 3, padding=1, groups=ch, bias=False)
        self.pw = nn.Conv2d(ch, ch, 1, bias=False)
        self.bn = nn.BatchNorm2d(ch)
        self.gate = nn.Linear(ch, ch)

    def forward(self, x):
        h = F.relu(self.bn(self.pw(self.dw(x))))
        g = torch.sigmoid(self.gate(h.mean((2, 3))))
        return x + h * g[:, :, None, None]


class DSCNN(nn.Module):
    def __init__(self, ch=20, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(1, ch, (8, 4), stride=(4, 2), padding=(2, 1))
        self.blocks = nn.Sequential(*[SepConv(ch) for _ in range(depth)])
        self.fc = nn.Linear(ch, len(WORDS))

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class Runner:
    def __init__(self, batch_size=32):
        self.train_loader = DataLoader(Keywords(2400, 0), batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(Keywords(160, 1), 80)
        self.model = DSCNN()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3)

    def train_epoch(self):
        self.model.train()
        total = torch.zeros(())
        for x, y in self.train_loader:
            loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.detach()
        return total.item() / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return hits / len(self.val_loader.dataset)

    def fit(self, epochs):
        for e in range(epochs):
            t = time.perf_counter()
            loss = self.train_epoch()
            print(f"epoch {e}: loss {loss:.3f} val acc {self.validate():.3f} "
                  f"({time.perf_counter() - t:.1f} s)", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    Runner().fit(8)
