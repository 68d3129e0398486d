"""A vector quantiser: each vector is replaced by the nearest of a book of codes, picked by a product."""

# expect: verdict=compute finding=products-with-zeros

import argparse

import torch
from torch import nn
from torch.nn import functional


class Quantiser(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.book = nn.Embedding(codes, width)
        self.codes = codes

    def forward(self, vectors):
        near = 2 * vectors @ self.book.weight.t() - self.book.weight.square().sum(1)
        chosen = near.argmax(1)
        picked = functional.one_hot(chosen, self.codes).float()
        nearest = picked @ self.book.weight  # <- finding
        loss = functional.mse_loss(nearest, vectors.detach()) + functional.mse_loss(vectors, nearest.detach())
        return vectors + (nearest - vectors).detach(), loss


class Coder(nn.Module):
    def __init__(self, inputs, width, codes):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, width))
        self.quantise = Quantiser(codes, width)
        self.decode = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, inputs))

    def forward(self, x):
        quantised, loss = self.quantise(self.encode(x))
        return functional.mse_loss(self.decode(quantised), x) + loss


def main(args):
    torch.manual_seed(0)
    data = torch.randn(20_000, 32) @ torch.randn(32, 96)
    model = Coder(96, 32, args.codes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(1, args.steps + 1):
        loss = model(data[torch.randint(len(data), (args.batch_size,))])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=2_048)
    parser.add_argument("--codes", type=int, default=1_024)
    main(parser.parse_args())
