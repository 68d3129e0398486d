"""Length-bucketed clips of sound: most batches are short and cheap, now and then comes a long one."""

import argparse

import numpy as np
import torch
from scipy import signal
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 8000


class Clips(Dataset):
    """Chirps with noise; one bucket in ten holds recordings of a minute instead of seconds."""

    def __init__(self, buckets, batch_size):
        self.buckets, self.batch_size = buckets, batch_size

    def __len__(self):
        return self.buckets

    def __getitem__(self, bucket):
        random = np.random.default_rng(int(torch.randint(2**31, ())))
        seconds = 50 if bucket % 10 == 0 else 1
        time = np.arange(seconds * RATE, dtype=np.float32) / RATE
        features, labels = [], random.integers(0, 4, self.batch_size)
        for label in labels:
            chirp = signal.chirp(time, 200 * (label + 1), time[-1], 300 * (label + 1))
            _, _, power = signal.spectrogram(chirp + random.normal(0, 0.3, len(time)), RATE, nperseg=256)
            features.append(np.log1p(power).mean(1).astype(np.float32))
        return torch.from_numpy(np.stack(features)), torch.from_numpy(labels)


class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(129, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )

    def forward(self, features):
        return self.layers(features)


def train(args):
    model = Classifier(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(
        Clips(args.buckets, 4),
        batch_size=None,
        shuffle=True,
        num_workers=2,
        prefetch_factor=8,
        persistent_workers=True,
    )
    for epoch in range(args.epochs):
        right = 0
        for features, labels in loader:
            output = model(features)
            loss = nn.functional.cross_entropy(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (output.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}: {right} of {4 * args.buckets} right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--buckets", type=int, default=120)
    parser.add_argument("--width", type=int, default=2000)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core belongs to the workers
    train(parser.parse_args())
