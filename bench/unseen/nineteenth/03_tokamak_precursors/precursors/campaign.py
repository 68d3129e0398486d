"""A synthetic experimental campaign: multichannel diagnostics of plasma discharges."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter


@dataclass
class Shot:
    number: int
    frames: np.ndarray  # (time, channel), float32, standardized
    disruption: int | None  # frame of the current quench


def simulate_campaign(n_shots, min_frames, max_frames, n_channels, disruptive_fraction, seed) -> list[Shot]:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(10, n_channels)) / np.sqrt(10)
    mode_pattern = rng.normal(size=n_channels)
    shots = []
    for number in range(n_shots):
        length = int(rng.integers(min_frames, max_frames))
        drive = rng.normal(size=(length, 10))
        latent = np.stack([lfilter([1 - a], [1, -a], drive[:, i]) for i, a in enumerate(np.linspace(0.8, 0.98, 10))], 1)
        latent /= latent.std(axis=0, keepdims=True)
        frames = latent @ mixing + 0.3 * rng.normal(size=(length, n_channels))
        disruption = None
        if rng.random() < disruptive_fraction:
            disruption = length - int(rng.integers(5, 30))
            clock = np.arange(length)
            growth = np.exp(-np.clip(disruption - clock, 0, None) / 90.0)
            slowing = 0.6 - 0.45 * growth
            frames += np.outer(1.6 * growth * np.sin(np.cumsum(slowing)), mode_pattern)
        frames = (frames - frames.mean(axis=0)) / frames.std(axis=0)
        shots.append(Shot(180000 + number, frames.astype(np.float32), disruption))
    return shots
