"""A flow in a box, by a network of place and time: each derivative is a call of its own."""

# expect: verdict=compute finding=separate-derivatives

import argparse
import math
from itertools import pairwise

import torch
from torch import nn

DENSITY = 1.2


class Field(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        sizes = [3] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.out = nn.Linear(width, 3)

    def forward(self, x, y, t):
        z = torch.cat([x, y, t], dim=1)
        for layer in self.hidden:
            z = torch.tanh(layer(z))
        return self.out(z).split(1, dim=1)


def derive(output, by):
    return torch.autograd.grad(output, by, torch.ones_like(output), create_graph=True)


def residuals(field, x, y, t):
    """Of the momentum in both directions, and of the mass, without friction."""
    u, v, p = field(x, y, t)
    (u_x,) = derive(u, x)  # <- finding
    (u_y,) = derive(u, y)
    (u_t,) = derive(u, t)
    (v_x,) = derive(v, x)
    (v_y,) = derive(v, y)
    (v_t,) = derive(v, t)
    (p_x,) = derive(p, x)
    (p_y,) = derive(p, y)
    return u_t + u * u_x + v * u_y + p_x / DENSITY, v_t + u * v_x + v * v_y + p_y / DENSITY, u_x + v_y


def at_start(x, y):
    """A vortex in a box."""
    x, y = math.pi * x, math.pi * y
    return torch.cat([torch.sin(x) * torch.cos(y), -torch.cos(x) * torch.sin(y)], dim=1)


def train(steps, points=1024):
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)
    for step in range(steps):
        x, y, t = (torch.rand(points, 1, requires_grad=True) for _ in range(3))
        loss = sum(residual.square().mean() for residual in residuals(field, x, y, t))
        x, y = torch.rand(points // 8, 1), torch.rand(points // 8, 1)
        u, v, _ = field(x, y, torch.zeros_like(x))
        loss = loss + (torch.cat([u, v], dim=1) - at_start(x, y)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    torch.manual_seed(0)
    train(parser.parse_args().steps)
