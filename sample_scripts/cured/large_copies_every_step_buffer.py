"""A value function learns from a replay buffer of episodes; it is one tensor, written and read by index."""

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
    all_states = torch.empty(args.episodes, args.length, args.width)
    all_worth = torch.empty(args.episodes, args.length, 1)
    for place in range(args.episodes):
        all_states[place], all_worth[place] = episode(args.length, args.width)
    states, worth = all_states.flatten(0, 1), all_worth.flatten(0, 1)
    value = nn.Sequential(
        nn.Linear(args.width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
    )
    optimizer = torch.optim.SGD(value.parameters(), lr=0.05)
    for step in range(1, args.steps + 1):
        if step % 4 == 0:
            place = step % args.episodes
            all_states[place], all_worth[place] = episode(args.length, args.width)
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
