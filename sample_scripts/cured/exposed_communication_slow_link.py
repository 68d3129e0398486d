"""Two processes learn which songs go together; between them is a line of 200 megabits a second."""

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

LINE = 200e6 / 8  # bytes a second
SO_MAX_PACING_RATE = 47  # of linux/asm-generic/socket.h: the kernel sends no faster than this


def slow_down():
    """Imitate the line: have the kernel hold back what this process sends to the other."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # that of the list itself
        if link.startswith("socket:"):
            connection = socket.socket(fileno=os.dup(int(descriptor)))
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(LINE))
            connection.close()


class Songs(nn.Module):
    """Songs and listeners as points: who likes a song is near to it."""

    def __init__(self, songs, width):
        super().__init__()
        self.taste = nn.Sequential(nn.Linear(songs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.score = nn.Linear(width, songs)

    def forward(self, heard):
        return self.score(self.taste(heard))


class Listeners:
    """What somebody heard depends on a few moods, made up."""

    def __init__(self, songs, seed):
        self.moods = torch.randn(8, songs, generator=torch.Generator().manual_seed(0))
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, size):
        mood = torch.randn(size, 8, generator=self.random)
        likes = (mood @ self.moods > 2).float()
        return likes * (torch.rand(likes.shape, generator=self.random) < 0.5), likes


def train(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier()  # the connections are there
    slow_down()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    model = DistributedDataParallel(Songs(args.songs, args.width))
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    listeners = Listeners(args.songs, seed=rank)
    for step in range(1, args.steps + 1):
        heard, likes = listeners.batch(args.batch_size)
        loss = nn.functional.binary_cross_entropy_with_logits(model(heard), likes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--songs", type=int, default=1000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--port", default="29626")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(train, (args,), nprocs=2)
