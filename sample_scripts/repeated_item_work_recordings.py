"""Bird calls in short segments of long recordings: each segment unpacks the whole recording that it is cut from."""

# expect: verdict=data finding=repeated-item-work

import argparse
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SECOND = 2000  # numbers
SPECIES = 4


class Recordings:
    """Long recordings, packed as a field recorder writes them: 16 bits, losslessly."""

    def __init__(self, count, seconds):
        draw = np.random.default_rng(0)
        self.species = draw.integers(0, SPECIES, count)
        self.packed = [self.record(draw, species, seconds * SECOND) for species in self.species]

    def record(self, draw, species, length):
        call = np.sin(np.arange(length) * (0.2 + 0.3 * species)) * 6000
        return zlib.compress((call + draw.normal(0, 800, length)).astype(np.int16).tobytes(), 1)

    def load(self, number):
        sound = np.frombuffer(zlib.decompress(self.packed[number]), np.int16).astype(np.float32)
        return sound / np.abs(sound).max()


class Segments(Dataset):
    """Each second of each recording, with its species."""

    def __init__(self, recordings, seconds):
        self.recordings = recordings
        self.seconds = seconds

    def __len__(self):
        return len(self.recordings.packed) * self.seconds

    def __getitem__(self, index):
        number, second = divmod(index, self.seconds)
        sound = self.recordings.load(number)  # <- finding
        cut = sound[second * SECOND : (second + 1) * SECOND]
        return torch.from_numpy(cut.copy())[None], int(self.recordings.species[number])


def main(args):
    torch.set_num_threads(1)  # the model is small
    loader = DataLoader(
        Segments(Recordings(args.recordings, args.seconds), args.seconds), batch_size=16, shuffle=True
    )
    model = nn.Sequential(
        nn.Conv1d(1, 16, 32, stride=8),
        nn.ReLU(),
        nn.Conv1d(16, 32, 8, stride=4),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, SPECIES),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for sounds, species in loader:
            loss = nn.functional.cross_entropy(model(sounds), species)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=2)
    main(parser.parse_args())
