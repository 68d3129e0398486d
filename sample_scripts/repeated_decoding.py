"""Vibrations of machines: compressed recordings on disk, unpacked by the dataset for every epoch."""

# expect: verdict=data finding=repeated-decoding

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 16384
CHANNELS = 6
WINDOW = 2048


def record(folder, machines):
    """Write one file per machine; the worn ones hum at another frequency."""
    random = np.random.default_rng(0)
    time = np.arange(LENGTH) / LENGTH
    for machine in range(machines):
        tone = np.sin(2 * np.pi * (40 + 15 * (machine % 2)) * time) + random.normal(
            0, 0.5, (CHANNELS, LENGTH)
        )
        np.savez_compressed(folder / f"{machine:04d}.npz", tone=(tone * 500).astype(np.int16))


class Recordings(Dataset):
    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def read(self, index):
        with np.load(self.paths[index]) as file:
            return torch.from_numpy(file["tone"])  # <- finding

    def __getitem__(self, index):
        start = int(torch.randint(LENGTH - WINDOW, ()))
        tone = self.read(index)[:, start : start + WINDOW]
        return tone.float() / 1000 + 0.05 * torch.randn(CHANNELS, WINDOW), index % 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(CHANNELS, 16, 32, stride=16)
        self.second = nn.Conv1d(16, 32, 8, stride=4)
        self.head = nn.Linear(32, 2)

    def forward(self, tone):
        hidden = torch.relu(self.second(torch.relu(self.first(tone))))
        return self.head(hidden.amax(2))


def train(folder, epochs, batch_size):
    loader = DataLoader(
        Recordings(folder), batch_size=batch_size, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        total = 0.0
        for tone, worn in loader:
            loss = nn.functional.cross_entropy(model(tone), worn)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core belongs to the workers
    with tempfile.TemporaryDirectory() as name:
        record(Path(name), args.machines)
        train(Path(name), args.epochs, args.batch_size)
