"""Probabilistic forecast of glider flight paths from recorded flights kept in one archive."""
import argparse
import os
import tempfile
import time
import zipfile

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Independent, MultivariateNormal, Normal
from torch.utils.data import DataLoader, Dataset

HISTORY, FUTURE, CHANNELS, LENGTH = 40, 20, 6, 400


def record_flights(path, flights, seed=0):
    rng = np.random.default_rng(seed)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for i in range(flights):
            turn = np.cumsum(rng.normal(0, 0.03, LENGTH)) * rng.uniform(0.2, 1.0)
            heading = rng.uniform(0, 2 * np.pi) + np.cumsum(turn) * 0.1
            speed = 1.0 + 0.1 * np.cumsum(rng.normal(0, 0.05, LENGTH))
            vel = np.stack([np.cos(heading), np.sin(heading)], 1) * speed[:, None]
            sink = -0.1 + 0.05 * np.sin(np.arange(LENGTH) / 25 + rng.uniform(0, 6))
            air = rng.normal(0, 0.1, (LENGTH, 2)) + turn[:, None]
            flight = np.concatenate([vel, sink[:, None], turn[:, None], air], 1).astype(np.float32)
            archive.writestr(f"flight_{i:05d}.f32", flight.tobytes())


class FlightWindows(Dataset):
    """Windows of HISTORY steps and the FUTURE velocities that follow."""

    def __init__(self, path, stride=8):
        self.path = path
        self.archive = zipfile.ZipFile(path)
        names = self.archive.namelist()
        self.index = [(n, s) for n in names for s in range(0, LENGTH - HISTORY - FUTURE, stride)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        name, start = self.index[i]
        raw = self.archive.read(name)
        flight = np.frombuffer(bytearray(raw), dtype=np.float32).reshape(LENGTH, CHANNELS)
        past = flight[start:start + HISTORY]
        future = flight[start + HISTORY:start + HISTORY + FUTURE, :2]
        return torch.from_numpy(past), torch.from_numpy(future - past[-1, :2]).flatten()


class PathMixture(nn.Module):
    """GRU encoder with a mixture of diagonal Gaussians over the coming velocities."""

    def __init__(self, hidden=256, modes=12):
        super().__init__()
        self.modes, self.dim = modes, 2 * FUTURE
        self.gru = nn.GRU(CHANNELS, hidden, batch_first=True)
        self.trunk = nn.Sequential(nn.Linear(hidden, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU())
        self.weight = nn.Linear(256, modes)
        self.mean = nn.Linear(256, modes * self.dim)
        self.log_std = nn.Linear(256, modes * self.dim)

    def forward(self, past):
        h = self.trunk(self.gru(past)[0][:, -1])
        shape = (-1, self.modes, self.dim)
        return self.weight(h), self.mean(h).view(shape), self.log_std(h).view(shape).clamp(-5, 2).exp()


def nll(logits, mean, std, target):
    modes = Independent(Normal(mean, std), 1)
    log_prob = modes.log_prob(target.unsqueeze(1))
    return -torch.logsumexp(torch.log_softmax(logits, 1) + log_prob, dim=1).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=350)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--flights", type=int, default=250)
    args = ap.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flights.zip")
        record_flights(path, args.flights)
        loader = DataLoader(FlightWindows(path), batch_size=args.batch, shuffle=True, drop_last=True)
        model = PathMixture()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)

        step, began, running = 0, time.time(), 0.0
        while step < args.steps:
            for past, future in loader:
                loss = nll(*model(past), future)
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
                step += 1
                running += loss.item()
                if step % 25 == 0:
                    print(f"step {step} nll {running / 25:.4f} {time.time() - began:.1f}s", flush=True)
                    running = 0.0
                if step >= args.steps:
                    break


if __name__ == "__main__":
    main()
