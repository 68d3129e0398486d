"""Species classification of bat echolocation calls.

Recordings are described by a night catalogue (site, detector, noise profile, call parameters).
Each loader worker renders a recording at the detector's rate and hands over a log-spectrogram;
a small convolutional network with squeeze-excitation predicts the species.
"""
import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.signal import firwin2
from torch.utils.data import DataLoader, Dataset, RandomSampler

RATE = 96_000
SPECIES = ["pipistrellus", "pygmaeus", "nyctalus", "plecotus", "myotis", "rhinolophus", "barbastella", "eptesicus"]
START = np.array([75, 85, 28, 52, 90, 82, 43, 34]) * 0.45e3
STOP = np.array([45, 54, 21, 26, 38, 80, 29, 25]) * 0.45e3


@dataclass
class Call:
    species: int
    detector: int
    onset: float
    length: float
    level: float
    seed: int


def catalogue(n, detectors, seed):
    rng = np.random.default_rng(seed)
    calls = []
    for _ in range(n):
        calls.append(Call(int(rng.integers(len(SPECIES))), int(rng.integers(detectors)), rng.uniform(0.01, 0.06),
                          rng.uniform(0.004, 0.02), rng.uniform(0.2, 1.0), int(rng.integers(2**31))))
    return calls


class DetectorBank:
    """Frequency responses of the microphones, one FIR per detector, as spectra of a given length."""

    def __init__(self, detectors, n_fft, taps=4095):
        self.response = np.empty((detectors, n_fft // 2 + 1), np.complex64)
        for d in range(detectors):
            rng = np.random.default_rng(1000 + d)
            freq = np.concatenate([[0.0], np.sort(rng.uniform(0.02, 0.98, 30)), [1.0]])
            gain = np.clip(1 + 0.3 * rng.standard_normal(32), 0.1, 2.0)
            fir = firwin2(taps, freq, gain, nfreqs=2**17 + 1)
            self.response[d] = np.fft.rfft(fir, n_fft)


class BatCalls(Dataset):
    def __init__(self, calls, detectors, seconds=0.1, n_fft=256, hop=128):
        self.calls, self.detectors = calls, detectors
        self.n, self.n_fft, self.hop = int(seconds * RATE), n_fft, hop
        self.window = np.hanning(n_fft).astype(np.float32)
        self.bank = None

    def open(self):
        self.bank = DetectorBank(self.detectors, 2 * self.n)

    def __len__(self):
        return len(self.calls)

    def __getitem__(self, i):
        c = self.calls[i]
        rng = np.random.default_rng(c.seed)
        wave = 0.1 * rng.standard_normal(self.n, dtype=np.float32)
        m = int(c.length * RATE)
        t = np.linspace(0, 1, m, dtype=np.float32)
        f0, f1 = START[c.species], STOP[c.species]
        phase = 2 * np.pi * np.cumsum(f1 + (f0 - f1) * (1 - t) ** 2) / RATE
        s = int(c.onset * RATE)
        wave[s:s + m] += (c.level * np.sin(phase) * np.hanning(m)).astype(np.float32)
        wave = np.fft.irfft(np.fft.rfft(wave, 2 * self.n) * self.bank.response[c.detector])[:self.n]
        frames = np.lib.stride_tricks.sliding_window_view(wave.astype(np.float32), self.n_fft)[::self.hop]
        spec = np.abs(np.fft.rfft(frames * self.window, axis=1))[:, :128]
        return torch.from_numpy(np.log1p(spec.T).astype(np.float32))[None], c.species


def open_bank(worker_id):
    torch.utils.data.get_worker_info().dataset.open()


class SEBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)
        self.se = nn.Sequential(nn.Linear(cout, cout // 4), nn.ReLU(), nn.Linear(cout // 4, cout), nn.Sigmoid())

    def forward(self, x):
        h = self.n2(self.conv2(F.relu(self.n1(self.conv1(x)))))
        h = h * self.se(h.mean((2, 3)))[:, :, None, None]
        return F.relu(h + self.skip(x))


class CallNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 5, 2, 2, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(SEBlock(width, width, 2), SEBlock(width, 2 * width, 2), SEBlock(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    right = total = 0
    for x, y in batches:
        right += int((model(x).argmax(1) == y).sum())
        total += len(y)
    model.train()
    return right / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--calls", type=int, default=512)
    p.add_argument("--detectors", type=int, default=160)
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--width", type=int, default=24)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--eval-every", type=int, default=7)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--save", default="")
    args = p.parse_args()
    torch.manual_seed(args.seed)

    train_set = BatCalls(catalogue(args.calls, args.detectors, args.seed), args.detectors)
    held_out = BatCalls(catalogue(96, args.detectors, args.seed + 1), args.detectors)
    order = RandomSampler(train_set, generator=torch.Generator().manual_seed(args.seed))
    loader = DataLoader(train_set, args.batch, sampler=order, num_workers=args.workers, drop_last=True,
                        worker_init_fn=open_bank, prefetch_factor=4)
    held_out.open()
    val = list(DataLoader(held_out, args.batch))

    model = CallNet(args.width, len(SPECIES))
    opt = torch.optim.AdamW(model.parameters(), args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(loader))
    for epoch in range(1, args.epochs + 1):
        began, total = time.time(), torch.zeros(())
        for x, y in loader:
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
        line = f"epoch {epoch:3d}  loss {total.item() / len(loader):.5f}  {time.time() - began:.2f} s"
        if epoch % args.eval_every == 0 or epoch == args.epochs:
            line += f"  accuracy {evaluate(model, val):.3f}"
        print(line, flush=True)
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
