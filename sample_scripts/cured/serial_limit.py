"""Seismograms from an archive that answers slowly; every worker talks to it as it likes."""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 600


class Archive:
    """Stands for a tape robot: an answer takes milliseconds, however little is asked for."""

    def __init__(self, seconds):
        self.seconds = seconds

    def read(self, number):
        time.sleep(self.seconds)
        random = np.random.default_rng(number)
        trace = random.normal(size=(3, SAMPLES)).cumsum(1)
        if number % 2:
            trace[:, SAMPLES // 2 :] += 20 * random.random()
        return trace.astype(np.float32) / 20


class Seismograms(Dataset):
    def __init__(self, archive, count):
        self.archive, self.count = archive, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        trace = self.archive.read(number)
        return torch.from_numpy(trace) + 0.02 * torch.randn(trace.shape), float(number % 2)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Conv1d(3, 24, 15, stride=4)
        self.memory = nn.Conv1d(24, 48, 7, stride=4)
        self.head = nn.Linear(48, 1)

    def forward(self, trace):
        hidden = torch.relu(self.memory(torch.relu(self.filters(trace))))
        return self.head(hidden.mean(2)).squeeze(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=960)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--latency", type=float, default=0.003, metavar="SECONDS")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    seismograms = Seismograms(Archive(args.latency), args.count)
    loader = DataLoader(seismograms, batch_size=16, shuffle=True, num_workers=4, persistent_workers=True)
    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        for traces, quakes in loader:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(traces), quakes.float())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
