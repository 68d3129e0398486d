import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class NoisyDigits(Dataset):
    """Digit images with salt-and-pepper noise as input and the clean image as target."""

    def __init__(self, images, noise=0.2):
        self.images = images
        self.noise = noise

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        rng = np.random.default_rng((i * 7919) & 0xFFFF)
        clean = self.images[i]
        dirty = clean.copy()
        hit = rng.random(clean.shape) < self.noise
        dirty[hit] = rng.random(int(hit.sum()))
        # a small random shift of both
        dr, dc = rng.integers(-1, 2, 2)
        clean = np.roll(clean, (dr, dc), (0, 1))
        dirty = np.roll(dirty, (dr, dc), (0, 1))
        return dirty.astype(np.float32).ravel(), clean.astype(np.float32).ravel()


class AutoEncoder(nn.Module):
    def __init__(self, bottleneck=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                                     nn.Linear(128, bottleneck))
        self.decoder = nn.Sequential(nn.Linear(bottleneck, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU(),
                                     nn.Linear(256, 64), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


def run_epoch(model, loader, optimizer):
    total = 0.0
    for dirty, clean in loader:
        loss = nn.functional.mse_loss(model(dirty), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(dirty)
    return total / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=110)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(13)
    images = load_digits().images[:960] / 16.0
    loader = DataLoader(NoisyDigits(images), batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
                        persistent_workers=True)
    model = AutoEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = time.time()
    for epoch in range(args.epochs):
        mse = run_epoch(model, loader, optimizer)
        if epoch % 10 == 0:
            print(f"epoch {epoch} mse {mse:.5f} ({time.time() - start:.1f}s)")


if __name__ == "__main__":
    main()
