"""Digits drawn by how wrong the model was about them; a batch is drawn at once from one tensor of weights."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class HardFirst(Sampler):
    """Batches of samples in proportion to their last loss."""

    def __init__(self, count, batches, batch_size):
        self.losses = torch.ones(count)
        self.batches = batches
        self.batch_size = batch_size

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            yield torch.multinomial(self.losses, self.batch_size, replacement=True).tolist()


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
    sampler = HardFirst(args.images, args.steps, args.batch_size)
    loader = DataLoader(digits(args.images), batch_sampler=sampler)
    model = nn.Sequential(nn.Linear(28 * 28, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (images, labels, indices) in enumerate(loader):
        optimizer.zero_grad()
        losses = nn.functional.cross_entropy(model(images), labels, reduction="none")
        losses.mean().backward()
        optimizer.step()
        sampler.losses[indices] = losses.detach()
        if step % 100 == 0:
            print(f"step {step}: loss {losses.mean().item():.3f}")


if __name__ == "__main__":
    main()
