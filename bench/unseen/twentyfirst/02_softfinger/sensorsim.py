"""Piecewise-constant-curvature finger with strain sensors that lag and drift.

All sequences are simulated at once; the result fits in memory many times over.
"""
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def _tendon_commands(rng, n, horizon, segments):
    """Smooth random curvature commands: a few sinusoids for each segment and bending plane."""
    t = np.arange(horizon) / 50.0
    k = np.zeros((n, horizon, segments, 2))
    for _ in range(4):
        f = rng.uniform(0.2, 2.5, size=(n, 1, segments, 2))
        ph = rng.uniform(0, 2 * np.pi, size=(n, 1, segments, 2))
        a = rng.normal(scale=0.6, size=(n, 1, segments, 2))
        k += a * np.sin(2 * np.pi * f * t[None, :, None, None] + ph)
    return k


def _forward_kinematics(kappa, seg_len=0.04):
    """Tip position by composing segment transforms (small-torsion PCC)."""
    n, horizon, segments, _ = kappa.shape
    pos = np.zeros((n, horizon, 3))
    rot = np.broadcast_to(np.eye(3), (n, horizon, 3, 3)).copy()
    for s in range(segments):
        kx, ky = kappa[:, :, s, 0], kappa[:, :, s, 1]
        mag = np.sqrt(kx ** 2 + ky ** 2) + 1e-6
        phi = np.arctan2(ky, kx)
        r = seg_len / mag
        local = np.stack([r * (1 - np.cos(mag)) * np.cos(phi),
                          r * (1 - np.cos(mag)) * np.sin(phi),
                          r * np.sin(mag)], axis=-1)
        pos += np.einsum("ntij,ntj->nti", rot, local)
        c, si, cp, sp = np.cos(mag), np.sin(mag), np.cos(phi), np.sin(phi)
        bend = np.stack([
            np.stack([cp * cp * (c - 1) + 1, sp * cp * (c - 1), cp * si], -1),
            np.stack([sp * cp * (c - 1), cp * cp * (1 - c) + c, sp * si], -1),
            np.stack([-cp * si, -sp * si, c], -1),
        ], axis=-2)
        rot = rot @ bend
    return pos / (seg_len * segments)


def _strain(rng, kappa, channels, hysteresis, noise):
    n, horizon, segments, _ = kappa.shape
    mix = np.random.default_rng(5).normal(size=(segments * 2, channels)) / np.sqrt(segments * 2)
    ideal = np.tanh(kappa.reshape(n, horizon, -1) @ mix)
    play = np.zeros((n, channels))
    out = np.empty_like(ideal)
    for t in range(horizon):
        play = np.clip(play, ideal[:, t] - hysteresis, ideal[:, t] + hysteresis)
        out[:, t] = 0.6 * ideal[:, t] + 0.4 * play
    drift = np.cumsum(rng.normal(scale=0.004, size=out.shape), axis=1)
    return out + drift + rng.normal(scale=noise, size=out.shape)


def simulate(n, sim, seed):
    rng = np.random.default_rng(seed)
    kappa = _tendon_commands(rng, n, sim["horizon"], sim["segments"])
    tip = _forward_kinematics(kappa)
    strain = _strain(rng, kappa, sim["channels"], sim["hysteresis"], sim["sensor_noise"])
    as_t = lambda a: torch.from_numpy(a.astype(np.float32))
    return as_t(strain), as_t(tip), as_t(kappa.reshape(n, sim["horizon"], -1))


def make_loaders(cfg):
    sim, bs = cfg["sim"], cfg["train"]["batch_size"]
    train = TensorDataset(*simulate(sim["n_train"], sim, cfg["seed"]))
    val = TensorDataset(*simulate(sim["n_val"], sim, cfg["seed"] + 1))
    g = torch.Generator().manual_seed(cfg["seed"])
    return (DataLoader(train, batch_size=bs, shuffle=True, drop_last=True, generator=g),
            DataLoader(val, batch_size=4 * bs))
