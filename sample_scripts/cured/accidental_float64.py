"""A network learns where two planets will be; the orbits come from NumPy."""

import argparse

import numpy as np
import torch
from torch import nn


class Orbits:
    """Planets on circles around a sun, pulled at by each other; solved by leapfrog steps."""

    def __init__(self, count, seed=0):
        random = np.random.default_rng(seed)
        self.angle = random.uniform(0, 2 * np.pi, (count, 2))
        self.radius = random.uniform(0.8, 2.0, (count, 2))

    def start(self):
        place = np.stack([np.cos(self.angle), np.sin(self.angle)], 2) * self.radius[..., None]
        speed = np.stack([-np.sin(self.angle), np.cos(self.angle)], 2) / np.sqrt(self.radius)[..., None]
        return place, speed

    @staticmethod
    def pull(place):
        sun = -place / (np.linalg.norm(place, axis=2, keepdims=True) ** 3 + 0.1)
        apart = place[:, ::-1] - place
        return sun + 0.05 * apart / (np.linalg.norm(apart, axis=2, keepdims=True) ** 3 + 0.1)

    def solve(self, steps=60, dt=0.02):
        place, speed = self.start()
        inputs = np.concatenate([place, speed], 2).reshape(len(place), 8)
        for _ in range(steps):
            speed = speed + dt * self.pull(place)
            place = place + dt * speed
        return inputs, place.reshape(len(place), 4)


class Predictor(nn.Module):
    def __init__(self, width=768, depth=3):
        super().__init__()
        layers = [nn.Linear(8, width), nn.SiLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 4))

    def forward(self, state):
        return self.layers(state)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orbits", type=int, default=51_200)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs, targets = (torch.from_numpy(values).float() for values in Orbits(args.orbits).solve())
    model = Predictor()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        for step, rows in enumerate(torch.randperm(len(inputs)).split(args.batch_size)):
            loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"epoch {epoch}, step {step}: squared error {loss.item():.4f}")


if __name__ == "__main__":
    main()
