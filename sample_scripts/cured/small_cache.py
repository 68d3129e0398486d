"""Windows of long recordings: a cache keeps all of the decoded recordings, however many there are."""

import argparse
import functools
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CHANNELS = 8
LENGTH = 6000
WINDOW = 128
KINDS = 4


def write_recordings(folder, count):
    draw = np.random.default_rng(0)
    for number in range(count):
        tone = np.sin(np.arange(LENGTH) * 0.02 * (1 + number % KINDS))
        values = tone + draw.normal(0, 0.3, (CHANNELS, LENGTH))
        np.savez_compressed(folder / f"{number}.npz", values=(values * 1000).astype(np.int16))


@functools.cache
def decoded(path):
    with np.load(path) as file:
        values = file["values"] / 1000
    values = values - values.mean(1, keepdims=True)
    spread = np.sqrt(np.convolve((values**2).mean(0), np.ones(256) / 256, mode="same"))
    return torch.from_numpy((values / (spread + 1e-3)).astype(np.float32))


class Windows(Dataset):
    """Each item is a window of a recording, and the kind of its tone."""

    def __init__(self, folder, recordings, windows):
        self.paths = [str(folder / f"{number}.npz") for number in range(recordings)]
        self.windows = windows

    def __len__(self):
        return len(self.paths) * self.windows

    def __getitem__(self, index):
        number = index // self.windows
        values = decoded(self.paths[number])
        begin = int(torch.randint(LENGTH - WINDOW, ()))
        return values[:, begin : begin + WINDOW], number % KINDS


def main(args):
    torch.set_num_threads(1)  # the model is small
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recordings(folder, args.recordings)
        loader = DataLoader(Windows(folder, args.recordings, 16), batch_size=16, shuffle=True)
        model = nn.Sequential(
            nn.Conv1d(CHANNELS, 32, 9, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 30, KINDS)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for epoch in range(args.epochs):
            total = 0.0
            for values, kinds in loader:
                loss = nn.functional.cross_entropy(model(values), kinds)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=6)
    main(parser.parse_args())
