"""A convolutional GAN on the handwritten digits, whose discriminator is trained on images with their graph."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NOISE = 48


class Generator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.start = nn.Sequential(
            nn.Linear(NOISE, 4 * width * 16), nn.BatchNorm1d(4 * width * 16), nn.ReLU()
        )
        self.grow = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise):
        return self.grow(self.start(noise).unflatten(1, (-1, 4, 4)))


class Discriminator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * width * 16, 1),
        )  # fmt: skip

    def forward(self, images):
        return self.layers(images)


def digits():
    images = torch.from_numpy(load_digits().images).float().unsqueeze(1) / 8 - 1
    return TensorDataset(nn.functional.interpolate(images, scale_factor=2.0, mode="bilinear"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--critic-updates", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator, discriminator = Generator(width=16), Discriminator(width=16)
    criterion = nn.BCEWithLogitsLoss()
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    loader = DataLoader(digits(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    ones, zeros = torch.ones(args.batch_size, 1), torch.zeros(args.batch_size, 1)
    for epoch in range(args.epochs):
        for (real,) in loader:
            for _ in range(args.critic_updates):
                d_optimizer.zero_grad()
                fake = generator(torch.randn(args.batch_size, NOISE))
                on_real = criterion(discriminator(real), ones)
                on_fake = criterion(discriminator(fake.detach()), zeros)
                d_loss = on_real + on_fake
                d_loss.backward()
                d_optimizer.step()

            g_optimizer.zero_grad()
            fake = generator(torch.randn(args.batch_size, NOISE))
            g_loss = criterion(discriminator(fake), ones)
            g_loss.backward()
            g_optimizer.step()
        print(f"epoch {epoch}: discriminator {d_loss.item():.3f}, generator {g_loss.item():.3f}")


if __name__ == "__main__":
    main()
