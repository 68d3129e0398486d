"""A value function learns from a replay buffer of episodes; all of it is joined to take a batch of it."""

# expect: verdict=data finding=large-copies-every-step

import argparse

import torch
from torch import nn


def episode(length, width):
    """States of a noisy oscillation, and what each of them is worth."""
    phases = torch.rand(1) * 6 + torch.arange(length) / 20
    states = torch.sin(phases[:, None] * torch.arange(1, width + 1) / width) + 0.1 * torch.randn(
        length, width
    )
    return states, torch.cos(phases)[:, None]


def main(args):
    torch.manual_seed(0)
    episodes = [episode(args.length, args.width) for _ in range(args.episodes)]
    value = nn.Sequential(
        nn.Linear(args.width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
    )
    optimizer = torch.optim.SGD(value.parameters(), lr=0.05)
    for step in range(1, args.steps + 1):
        if step % 4 == 0:
            episodes[step % args.episodes] = episode(args.length, args.width)
        states = torch.cat([states for states, _ in episodes])  # <- finding
        worth = torch.cat([worth for _, worth in episodes])
        index = torch.randint(len(states), (args.batch_size,))
        loss = nn.functional.mse_loss(value(states[index]), worth[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--length", type=int, default=250)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=256)
    main(parser.parse_args())
