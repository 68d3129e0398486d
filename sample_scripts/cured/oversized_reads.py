"""Short windows of long vibration recordings."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAULTS = 5
WINDOW = 2048
RECORDING = 2_000_000  # values, 4 MB


def record(folder, machines):
    random = np.random.default_rng(0)
    noise = random.normal(0, 400, RECORDING)
    time = np.arange(RECORDING)
    for machine in range(machines):
        hum = 900 * np.sin(time * (0.05 + 0.03 * (machine % FAULTS)))
        (np.roll(noise, 997 * machine) + hum).astype(np.int16).tofile(folder / f"machine{machine:02d}.raw")


class Windows(Dataset):
    """Windows at random places, with the fault of their machine."""

    def __init__(self, folder, count):
        random = np.random.default_rng(1)
        self.paths = sorted(folder.glob("*.raw"))
        self.machines = random.integers(0, len(self.paths), count)

    def __len__(self):
        return len(self.machines)

    def __getitem__(self, index):
        machine, start = int(self.machines[index]), int(torch.randint(RECORDING - WINDOW, ()))
        values = np.fromfile(self.paths[machine], np.int16, WINDOW, offset=2 * start)
        window = values.astype(np.float32) / 1000
        return torch.from_numpy(window), machine % FAULTS


def fit(folder, epochs, windows, batch_size):
    loader = DataLoader(
        Windows(folder, windows), batch_size, shuffle=True, num_workers=2, persistent_workers=True
    )
    model = nn.Sequential(
        nn.Linear(WINDOW, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, FAULTS)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        losses = []
        for x, fault in loader:
            loss = nn.functional.cross_entropy(model(x), fault)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--windows", type=int, default=3200)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    with tempfile.TemporaryDirectory() as name:
        record(Path(name), args.machines)
        fit(Path(name), args.epochs, args.windows, args.batch_size)
