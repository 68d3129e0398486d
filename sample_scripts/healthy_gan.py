"""A convolutional GAN on the handwritten digits, as in the textbook."""

# expect: verdict=healthy finding=none

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NOISE = 32

generator = nn.Sequential(
    nn.Linear(NOISE, 96 * 16), nn.ReLU(), nn.Unflatten(1, (96, 4, 4)),
    nn.ConvTranspose2d(96, 64, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
    nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 1, 3, padding=1), nn.Sigmoid(),
)  # fmt: skip
discriminator = nn.Sequential(
    nn.Conv2d(1, 32, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
    nn.Conv2d(32, 64, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
    nn.Flatten(), nn.Linear(64 * 16, 1),
)  # fmt: skip


def digits():
    images = torch.from_numpy(load_digits().images).float().unsqueeze(1) / 16
    return TensorDataset(nn.functional.interpolate(images, scale_factor=2.0, mode="bilinear"))


def main(epochs, batch_size):
    loader = DataLoader(digits(), batch_size=batch_size, shuffle=True, drop_last=True)
    criterion = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(batch_size, 1), torch.zeros(batch_size, 1)
    d_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.02, momentum=0.5)
    g_optimizer = torch.optim.SGD(generator.parameters(), lr=0.02, momentum=0.5)
    for epoch in range(epochs):
        for (real,) in loader:
            fake = generator(torch.randn(batch_size, NOISE))

            d_optimizer.zero_grad()
            d_loss = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
            d_loss.backward()
            d_optimizer.step()

            g_optimizer.zero_grad()
            g_loss = criterion(discriminator(fake), ones)
            g_loss.backward()
            g_optimizer.step()
        print(f"epoch {epoch}: discriminator {d_loss.item():.3f}, generator {g_loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=96)
    args = parser.parse_args()
    torch.manual_seed(0)
    main(args.epochs, args.batch_size)
