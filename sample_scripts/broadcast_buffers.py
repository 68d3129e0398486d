"""Two processes learn to tell views of the same pattern from a long queue of older ones."""

# expect: verdict=network finding=broadcast-buffers

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Contrast(nn.Module):
    """An encoder, and a queue of keys that both processes keep alike."""

    def __init__(self, width, length):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, width))
        self.register_buffer("queue", nn.functional.normalize(torch.randn(length, width), dim=1))
        self.seen = 0

    def forward(self, views, others):
        query = nn.functional.normalize(self.encoder(views), dim=1)
        with torch.no_grad():
            key = nn.functional.normalize(self.encoder(others), dim=1)
        rows = torch.randint(len(self.queue), (512,))
        alike = (query * key).sum(1, keepdim=True)
        return torch.cat([alike, query @ self.queue[rows].T], 1) / 0.1, key

    @torch.no_grad()
    def push(self, keys):
        every = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(every, keys)
        keys = torch.cat(every)
        places = torch.arange(self.seen, self.seen + len(keys)) % len(self.queue)
        self.queue[places] = keys
        self.seen += len(keys)


class Patterns:
    """Smooth patterns, seen twice with different noise."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.waves = torch.randn(32, 256, generator=self.random)

    def views(self, size):
        pattern = torch.randn(size, 32, generator=self.random) @ self.waves / 32**0.5
        return [pattern + 0.3 * torch.randn(size, 256, generator=self.random) for _ in range(2)]


def worker(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    net = Contrast(args.width, args.queue)
    model = DistributedDataParallel(net)  # <- finding
    optimizer = torch.optim.SGD(net.encoder.parameters(), lr=0.05, momentum=0.9)
    patterns = Patterns(seed=rank)
    torch.manual_seed(rank)
    for step in range(1, args.steps + 1):
        views, others = patterns.views(args.batch_size)
        logits, keys = model(views, others)
        loss = nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.push(keys)
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--queue", type=int, default=65536)
    parser.add_argument("--port", default="29618")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(worker, (args,), nprocs=2)
