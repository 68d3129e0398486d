"""A policy whose actions are Gaussian and independent of each other, described by a whole covariance matrix."""

# expect: verdict=compute finding=diagonal-matrices

import argparse

import torch
from torch import nn
from torch.distributions import MultivariateNormal


class Policy(nn.Module):
    def __init__(self, inputs, width, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.mean = nn.Linear(width, actions)
        self.std = nn.Linear(width, actions)

    def forward(self, seen):
        hidden = self.body(seen)
        std = nn.functional.softplus(self.std(hidden)) + 0.05
        return MultivariateNormal(self.mean(hidden), torch.diag_embed(std.square()))  # <- finding


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    seen = torch.randn(20_000, 48)
    taken = torch.randn(20_000, args.actions)
    gained = torch.randn(20_000)
    policy = Policy(48, 256, args.actions)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, fused=True)
    for step in range(1, args.steps + 1):
        batch = torch.randint(len(seen), (args.batch_size,))
        chosen = policy(seen[batch])
        loss = -(chosen.log_prob(taken[batch]) * gained[batch]).mean() - 0.01 * chosen.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=1_024)
    parser.add_argument("--actions", type=int, default=12)
    main(parser.parse_args())
