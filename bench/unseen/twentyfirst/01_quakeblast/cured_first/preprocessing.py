"""Waveform preprocessing. Everything works on float32 arrays of shape (components, samples)."""
import numpy as np
from scipy import signal


class Compose:
    def __init__(self, steps):
        self.steps = list(steps)

    def __call__(self, x, rng):
        for step in self.steps:
            x = step(x, rng)
        return x


class AddStationNoise:
    """Mix in a noise template recorded before the event at a random SNR."""

    def __init__(self, templates, snr_db):
        self.templates = templates
        self.lo, self.hi = snr_db

    def __call__(self, x, rng):
        noise = self.templates[rng.integers(len(self.templates))]
        roll = int(rng.integers(noise.shape[-1]))
        noise = np.concatenate([noise[:, roll:], noise[:, :roll]], axis=-1)[:, : x.shape[-1]]
        snr = 10.0 ** (rng.uniform(self.lo, self.hi) / 20.0)
        scale = np.sqrt((x ** 2).mean()) / (snr * np.sqrt((noise ** 2).mean()) + 1e-9)
        return x + scale.astype(np.float32) * noise


class Detrend:
    def __call__(self, x, rng):
        n = x.shape[-1]
        t = np.linspace(-1.0, 1.0, n, dtype=np.float32)
        slope = (x @ t) / (t @ t)
        return x - x.mean(axis=-1, keepdims=True) - slope[:, None] * t


class FIRBandpass:
    """Linear-phase bandpass; symmetric taps and 'same' mode keep onsets where they are."""

    def __init__(self, fmin, fmax, fs, numtaps):
        self.taps = signal.firwin(numtaps, [fmin, fmax], fs=fs, pass_zero=False, window="hamming")

    def __call__(self, x, rng):
        y = signal.fftconvolve(x, self.taps[None, :], mode="same", axes=-1)
        return y.astype(np.float32)


class RandomWindow:
    def __init__(self, length, max_shift):
        self.length = length
        self.max_shift = max_shift

    def __call__(self, x, rng):
        mid = (x.shape[-1] - self.length) // 2
        shift = int(rng.integers(-self.max_shift, self.max_shift + 1)) if self.max_shift else 0
        start = int(np.clip(mid + shift, 0, x.shape[-1] - self.length))
        return x[:, start : start + self.length]


class Taper:
    def __init__(self, length, frac):
        self.win = signal.windows.tukey(length, 2 * frac).astype(np.float32)

    def __call__(self, x, rng):
        return x * self.win


class PeakNorm:
    """Common scale for the three components so that polarisation survives."""

    def __call__(self, x, rng):
        return x / (np.abs(x).max() + 1e-6)


def build_pipeline(cfg, fs, templates, train):
    p = cfg["preprocess"]
    length = int(p["window_s"] * fs)
    shift = int(p["max_shift_s"] * fs) if train else 0
    return Compose([
        AddStationNoise(templates, p["snr_db"]),
        Detrend(),
        FIRBandpass(p["fmin"], p["fmax"], fs, p["numtaps"]),
        RandomWindow(length, shift),
        Taper(length, p["taper"]),
        PeakNorm(),
    ])
