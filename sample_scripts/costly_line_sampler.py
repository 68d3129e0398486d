"""Digits drawn by how wrong the model was about them; each draw adds all weights up again."""

# expect: verdict=data finding=costly-line

import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class HardFirst(Sampler):
    """Samples in proportion to their last loss."""

    def __init__(self, count, draws):
        self.losses = [1.0] * count
        self.draws = draws

    def __len__(self):
        return self.draws

    def __iter__(self):
        for _ in range(self.draws):
            yield self.draw()  # <- finding

    def draw(self):
        point = random.random() * sum(self.losses)
        for index, loss in enumerate(self.losses):  # <- finding
            point -= loss  # <- finding
            if point <= 0:  # <- finding
                return index
        return len(self.losses) - 1


def digits(count):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 28 * 28, generator=generator)
    return TensorDataset(images, (images[:, :10].argmax(1)), torch.arange(count))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    sampler = HardFirst(args.images, args.steps * args.batch_size)
    loader = DataLoader(digits(args.images), batch_size=args.batch_size, sampler=sampler)
    model = nn.Sequential(nn.Linear(28 * 28, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (images, labels, indices) in enumerate(loader):
        optimizer.zero_grad()
        losses = nn.functional.cross_entropy(model(images), labels, reduction="none")
        losses.mean().backward()
        optimizer.step()
        for index, loss in zip(indices.tolist(), losses.tolist()):
            sampler.losses[index] = loss
        if step % 100 == 0:
            print(f"step {step}: loss {losses.mean().item():.3f}")


if __name__ == "__main__":
    main()
