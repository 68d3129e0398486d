"""A GAN draws rings: the generator runs once to train the critic and once more for itself."""

# expect: verdict=compute finding=repeated-forward

import argparse

import torch
from torch import nn


def up(inputs, outputs):
    return [
        nn.Upsample(scale_factor=2),
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    ]


class Generator(nn.Module):
    def __init__(self, noise, channels):
        super().__init__()
        self.start = nn.Linear(noise, channels * 16)
        self.layers = nn.Sequential(
            nn.Unflatten(1, (channels, 4, 4)),
            *up(channels, channels),
            *up(channels, channels),
            *up(channels, channels // 2),
            nn.Conv2d(channels // 2, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.layers(self.start(noise))


class Critic(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * channels * 64, 1),
        )  # fmt: skip

    def forward(self, picture):
        return self.layers(picture)


def rings(count):
    """Pictures of 32 x 32 with a ring of some size around some centre."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")
    centre = 0.6 * torch.rand(count, 2, 1, 1) - 0.3
    distance = ((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2).sqrt()
    radius = 0.2 + 0.5 * torch.rand(count, 1, 1)
    return (2 * torch.exp(-40 * (distance - radius) ** 2) - 1).unsqueeze(1)


def main(steps, batch_size, noise_size):
    torch.manual_seed(0)
    generator, critic = Generator(noise_size, 64), Critic(16)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judge = nn.BCEWithLogitsLoss()
    real, forged = torch.ones(batch_size, 1), torch.zeros(batch_size, 1)
    for step in range(steps):
        pictures = rings(batch_size)
        noise = torch.randn(batch_size, noise_size)

        d_optimizer.zero_grad()
        fakes = generator(noise).detach()  # <- finding
        d_loss = judge(critic(pictures), real) + judge(critic(fakes), forged)
        d_loss.backward()
        d_optimizer.step()

        g_optimizer.zero_grad()
        g_loss = judge(critic(generator(noise)), real)  # <- finding
        g_loss.backward()
        g_optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: critic {d_loss.item():.3f}, generator {g_loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--noise", type=int, default=64)
    args = parser.parse_args()
    main(args.steps, args.batch_size, args.noise)
