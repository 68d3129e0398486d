"""Two processes train a very deep and narrow network to sort points on spirals."""

# expect: verdict=network finding=unused-parameter-search

import argparse
import math
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Highway(nn.Module):
    """One of many layers that each change their input a little."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.gain = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        return x + self.gain * torch.tanh(x * self.scale + self.shift)


class DeepNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.first = nn.Linear(2, width)
        self.layers = nn.Sequential(*(Highway(width) for _ in range(depth)))
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.layers(self.first(x)))


class Spirals:
    """Three arms, turned against each other."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, size):
        arm = torch.randint(3, (size,), generator=self.random)
        along = torch.rand(size, generator=self.random)
        angle = 4 * along + 2 * math.pi / 3 * arm
        points = torch.stack([along * angle.cos(), along * angle.sin()], 1)
        return points + 0.02 * torch.randn(size, 2, generator=self.random), arm


def worker(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    net = DeepNet(args.width, args.depth)
    model = DistributedDataParallel(net, find_unused_parameters=True)  # <- finding
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)
    spirals = Spirals(seed=rank)
    for step in range(1, args.steps + 1):
        points, arm = spirals.batch(args.batch_size)
        loss = nn.functional.cross_entropy(model(points), arm)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--depth", type=int, default=150)
    parser.add_argument("--port", default="29611")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(worker, (args,), nprocs=2)
