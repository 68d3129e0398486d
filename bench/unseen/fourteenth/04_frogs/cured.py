"""Denoising of frog calls recorded at a pond: a waveform U-Net trained with an L1 + multi-resolution spectral loss."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RATE = 16_000


def synth_calls(n, seconds, seed):
    """Calls: trains of frequency-swept pulses with harmonics. Pond: pink-ish noise, rain drops."""
    rng = np.random.default_rng(seed)
    length = int(seconds * RATE)
    t = np.arange(length) / RATE
    clean = np.zeros((n, length), np.float32)
    for row in clean:
        for _ in range(rng.integers(2, 5)):
            f0, rate, start = rng.uniform(400, 2200), rng.uniform(4, 25), rng.uniform(0, 0.6 * seconds)
            gate = (t > start) & (t < start + rng.uniform(0.3, 0.9))
            pulse = np.clip(np.sin(2 * np.pi * rate * (t - start)), 0, None) ** 2
            phase = 2 * np.pi * (f0 * t + rng.uniform(-200, 200) * t ** 2 / 2)
            row += gate * pulse * (np.sin(phase) + 0.4 * np.sin(2 * phase)) * rng.uniform(0.1, 0.3)
    spectrum = np.fft.rfft(rng.normal(size=(n, length)).astype(np.float32))
    spectrum /= np.sqrt(1 + np.arange(spectrum.shape[1]) / 200)
    noise = np.fft.irfft(spectrum, length)
    noise *= rng.uniform(0.03, 0.12, (n, 1)) / noise.std(1, keepdims=True)
    drops = (rng.random((n, length)) < 2e-4) * rng.normal(0, 0.4, (n, length))
    return torch.from_numpy(clean), torch.from_numpy((clean + noise + drops).astype(np.float32))


def crops(clean, noisy, batch, length, gen):
    rows = torch.randint(len(clean), (batch, 1), generator=gen)
    cols = torch.randint(clean.shape[1] - length, (batch, 1), generator=gen) + torch.arange(length)
    return clean[rows, cols], noisy[rows, cols]


class Spectrogram(nn.Module):
    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, pad_mode="reflect", return_complex=True)
        real, imag = spec.real, spec.imag
        return (real ** 2 + imag ** 2 + 1e-7).sqrt()


class SpectralLoss(nn.Module):
    """Spectral convergence + log magnitude distance at several resolutions (as for Parallel WaveGAN)."""

    def __init__(self, sizes):
        super().__init__()
        self.transforms = nn.ModuleList(Spectrogram(n, n // 4) for n in sizes)

    def forward(self, estimate, target):
        loss = 0.0
        for transform in self.transforms:
            a = transform(estimate)
            with torch.no_grad():
                b = transform(target)
            loss = loss + (a - b).norm() / b.norm().clamp_min(1e-3) + F.l1_loss(a.log(), b.log())
        return loss / len(self.transforms)


class Down(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 8, 4, 2)
        self.mix = nn.Conv1d(cout, 2 * cout, 3, padding=1)

    def forward(self, x):
        return F.glu(self.mix(F.relu(self.conv(x))), dim=1)


class Up(nn.Module):
    def __init__(self, cin, cout, last=False):
        super().__init__()
        self.mix = nn.Conv1d(cin, 2 * cin, 3, padding=1)
        self.conv = nn.ConvTranspose1d(cin, cout, 8, 4, 2)
        self.last = last

    def forward(self, x):
        x = self.conv(F.glu(self.mix(x), dim=1))
        return x if self.last else F.relu(x)


class PondNet(nn.Module):
    def __init__(self, width=48, depth=4):
        super().__init__()
        sizes = [1] + [int(width * 1.6 ** i) for i in range(depth)]
        self.down = nn.ModuleList(Down(a, b) for a, b in zip(sizes, sizes[1:]))
        self.rnn = nn.GRU(sizes[-1], sizes[-1] // 2, bidirectional=True, batch_first=True)
        self.up = nn.ModuleList(Up(b, a, last=a == 1) for a, b in reversed(list(zip(sizes, sizes[1:]))))

    def forward(self, wave):
        x, skips = wave[:, None], []
        for down in self.down:
            x = down(x)
            skips.append(x)
        x = self.rnn(x.transpose(1, 2))[0].transpose(1, 2)
        for up in self.up:
            x = up(x + skips.pop())
        return wave + x[:, 0]


def si_sdr(estimate, target):
    scale = (estimate * target).sum(1, keepdim=True) / target.pow(2).sum(1, keepdim=True).clamp_min(1e-6)
    signal = scale * target
    return 10 * torch.log10((signal.pow(2).sum(1) + 1e-6) / ((estimate - signal).pow(2).sum(1) + 1e-6))


@torch.no_grad()
def validate(model, clean, noisy):
    model.eval()
    scores = torch.cat([si_sdr(model(n), c) - si_sdr(n, c) for c, n in zip(clean.split(4), noisy.split(4))])
    model.train()
    return scores.mean().item()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--crop", type=int, default=8192)
    p.add_argument("--lr", type=float, default=8e-4)
    p.add_argument("--fft", type=int, nargs="+", default=[512, 1024, 2048])
    p.add_argument("--spectral_weight", type=float, default=0.1)
    p.add_argument("--checkpoint", default="pondnet.pt")
    args = p.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    clean, noisy = synth_calls(60, 2.0, seed=2)
    held_clean, held_noisy = (x[:, :16384] for x in synth_calls(8, 2.0, seed=3))
    model = PondNet()
    spectral = SpectralLoss(args.fft)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    warmup = 20
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: (s + 1) / warmup if s < warmup else 0.5 * (1 + math.cos(math.pi * (s - warmup) / (args.steps - warmup))))
    best, tick = -math.inf, time.time()
    for step in range(1, args.steps + 1):
        target, wave = crops(clean, noisy, args.batch, args.crop, gen)
        estimate = model(wave)
        loss = F.l1_loss(estimate, target) + args.spectral_weight * spectral(estimate, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}  {(time.time() - tick) / 20:.3f} s/step", flush=True)
            tick = time.time()
        if step % 50 == 0:
            gain = validate(model, held_clean, held_noisy)
            print(f"step {step:4d}  held-out SI-SDR gain {gain:.2f} dB", flush=True)
            if gain > best:
                best = gain
                torch.save(model.state_dict(), args.checkpoint)


if __name__ == "__main__":
    main()
