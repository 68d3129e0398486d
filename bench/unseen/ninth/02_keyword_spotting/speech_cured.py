"""Front end, model and data of the keyword spotter."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset

SAMPLE_RATE = 8000


def hz_to_mel(f):
    return 2595.0 * math.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filterbank(n_fft, n_mels, sample_rate, f_min=20.0, f_max=None):
    """Triangular mel filters as a (n_fft // 2 + 1, n_mels) matrix."""
    f_max = f_max or sample_rate / 2
    lo, hi = hz_to_mel(f_min), hz_to_mel(f_max)
    edges = [mel_to_hz(lo + (hi - lo) * i / (n_mels + 1)) for i in range(n_mels + 2)]
    bins = [k * sample_rate / n_fft for k in range(n_fft // 2 + 1)]
    fb = torch.zeros(len(bins), n_mels)
    for m in range(n_mels):
        left, center, right = edges[m:m + 3]
        for k, f in enumerate(bins):
            if left < f <= center:
                fb[k, m] = (f - left) / (center - left)
            elif center < f < right:
                fb[k, m] = (right - f) / (right - center)
    return fb


class LogMel(nn.Module):
    """Waveform (..., T) -> normalised log mel spectrogram (..., n_mels, frames)."""

    def __init__(self, n_fft=256, hop=80, n_mels=40, sample_rate=SAMPLE_RATE):
        super().__init__()
        self.n_fft = n_fft
        self.hop = hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        self.register_buffer("fb", mel_filterbank(n_fft, n_mels, sample_rate), persistent=False)

    @torch.no_grad()
    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real ** 2 + spec.imag ** 2
        mel = (power.transpose(-1, -2) @ self.fb).transpose(-1, -2)
        mel = torch.log(mel + 1e-6)
        return (mel - mel.mean((-2, -1), keepdim=True)) / (mel.std((-2, -1), keepdim=True) + 1e-5)


class SpecAugment(nn.Module):
    def __init__(self, max_freq=8, max_time=20):
        super().__init__()
        self.max_freq = max_freq
        self.max_time = max_time

    def forward(self, mel):
        if not self.training:
            return mel
        b, n, t = mel.shape
        f = torch.arange(n).view(1, n, 1)
        s = torch.arange(t).view(1, 1, t)
        f0 = torch.randint(0, n - self.max_freq, (b, 1, 1))
        s0 = torch.randint(0, t - self.max_time, (b, 1, 1))
        fw = torch.randint(0, self.max_freq, (b, 1, 1))
        sw = torch.randint(0, self.max_time, (b, 1, 1))
        hide = ((f >= f0) & (f < f0 + fw)) | ((s >= s0) & (s < s0 + sw))
        return mel.masked_fill(hide, 0.0)


class SeparableBlock(nn.Module):
    def __init__(self, channels, kernel, dilation=1):
        super().__init__()
        self.depth = nn.Conv1d(channels, channels, kernel, padding=dilation * (kernel // 2),
                               dilation=dilation, groups=channels, bias=False)
        self.point = nn.Conv1d(channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        return x + F.relu(self.norm(self.point(self.depth(x))))


class KeywordNet(nn.Module):
    def __init__(self, classes, n_mels=40, width=96):
        super().__init__()
        self.augment = SpecAugment()
        self.stem = nn.Conv1d(n_mels, width, 5, stride=2, padding=2)
        self.body = nn.Sequential(*[SeparableBlock(width, 9, d) for d in (1, 2, 4, 1)])
        self.head = nn.Linear(width, classes)

    def forward(self, mel):
        return self.head(self.body(F.relu(self.stem(self.augment(mel)))).mean(-1))


class ToneWords(Dataset):
    """A 'word' is a sequence of three chirps; each class has its own."""

    def __init__(self, n, classes, seed, train=False):
        self.train = train
        g = torch.Generator().manual_seed(1234)
        notes = 200 + 2500 * torch.rand(classes, 3, generator=g)
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, classes, (n,), generator=g)
        t = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
        part = (t * 3).long().clamp(max=2)
        waves = torch.empty(n, SAMPLE_RATE)
        for i, y in enumerate(self.labels.tolist()):
            f = notes[y] * (1 + 0.1 * torch.randn(3, generator=g))
            waves[i] = torch.sin(2 * math.pi * torch.cumsum(f[part], 0) / SAMPLE_RATE)
        waves *= 0.2 + torch.rand(n, 1, generator=g)
        waves += 0.3 * torch.randn(n, SAMPLE_RATE, generator=g)
        self.waves = waves
        self.log_mel = LogMel()

    def random_gain(self, wave):
        return wave * (0.5 + torch.rand(())) if self.train else wave

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.log_mel(self.random_gain(self.waves[i])), self.labels[i]
