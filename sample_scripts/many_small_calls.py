"""Heartbeats of two kinds: how restless one is is summed up value by value, on tensors, in the dataset."""

# expect: verdict=data finding=many-small-calls

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 512


def record(count):
    """Recordings of regular and irregular hearts: the latter beat at a pace that drifts."""
    torch.manual_seed(0)
    kinds = torch.arange(count) % 2
    drift = torch.randn(count, LENGTH).cumsum(1) * 0.02 * kinds[:, None]
    phase = torch.linspace(0, 120, LENGTH) + torch.rand(count, 1) * 6 + drift
    return phase.sin() + 0.1 * torch.randn(count, LENGTH), kinds


def restlessness(wave):
    total, largest = 0.0, 0.0
    for place in range(1, LENGTH):
        jump = abs(wave[place].item() - wave[place - 1].item())  # <- finding
        total += jump
        largest = max(largest, jump)
    return total / LENGTH, largest


class Heartbeats(Dataset):
    def __init__(self, count):
        self.waves, self.kinds = record(count)

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        wave = self.waves[index]
        return torch.cat([wave, torch.tensor(restlessness(wave))]), self.kinds[index]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(LENGTH + 2, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, wave):
        return self.layers(wave)


def main(args):
    torch.set_num_threads(1)  # the model is small
    loader = DataLoader(Heartbeats(args.recordings), batch_size=32, shuffle=True)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        total = 0.0
        for waves, kinds in loader:
            loss = nn.functional.cross_entropy(model(waves), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=1280)
    parser.add_argument("--epochs", type=int, default=3)
    main(parser.parse_args())
