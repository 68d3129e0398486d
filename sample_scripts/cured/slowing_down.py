"""Prices of houses are learnt; samples that lie further off than nine in ten so far count less."""

import argparse
import collections

import torch
from torch import nn


def houses(count, features):
    """Prices that follow from a hidden layer, with noise that is large now and then."""
    inputs = torch.randn(count, features)
    hidden = torch.tanh(inputs @ torch.randn(features, 16) / features**0.5)
    noise = torch.randn(count, 1) * (1 + 5 * (torch.rand(count, 1) < 0.05))
    return inputs, hidden @ torch.randn(16, 1) + 0.1 * noise


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs, prices = houses(20_000, args.features)
    model = nn.Sequential(nn.Linear(args.features, args.width), nn.ReLU(), nn.Linear(args.width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    seen, limit = collections.deque(maxlen=20), 1.0
    for step in range(1, args.steps + 1):
        chosen = torch.randint(0, len(inputs), (args.batch_size,))
        errors = (model(inputs[chosen]) - prices[chosen]).abs().squeeze(1)
        weights = torch.where(errors.detach() > limit, limit / errors.detach(), 1.0)
        optimizer.zero_grad()
        (weights * errors.pow(2)).mean().backward()
        optimizer.step()
        seen.append(errors.detach())
        limit = torch.cat(list(seen)).kthvalue(int(0.9 * args.batch_size * len(seen))).values
        if step % 100 == 0:
            print(f"step {step}: mean error {errors.mean().item():.3f}, limit {limit.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    main(parser.parse_args())
