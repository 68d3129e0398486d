"""Two processes, each bound to a core, learn to repair pictures while an archive is packed on one of the cores."""

# expect: verdict=compute finding=straggler-rank
# late: rank=1 cause=compute

import argparse
import os
import zlib

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SIDE = 32


def pack_archive(core):
    """What a nightly job does, and does not end before morning."""
    os.sched_setaffinity(0, {core})
    archive = os.urandom(1 << 20)
    while True:
        zlib.compress(archive, 9)


class Pictures:
    """Waves of random direction, and the same with noise."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.y, self.x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")

    def batch(self, size):
        along, across = torch.rand(2, size, 1, 1, generator=self.random)
        clean = torch.sin(along * self.x + across * self.y).unsqueeze(1)
        return clean + 0.5 * torch.randn(clean.shape, generator=self.random), clean


def train(rank, cores, args):
    os.sched_setaffinity(0, {cores[rank]})
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(
        nn.Conv2d(1, args.width, 5, padding=2), nn.ReLU(),
        nn.Conv2d(args.width, args.width, 5, padding=2), nn.ReLU(),
        nn.Conv2d(args.width, 1, 5, padding=2),
    )  # fmt: skip
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters())
    pictures = Pictures(seed=rank)
    for step in range(1, args.steps + 1):
        noisy, clean = pictures.batch(args.batch_size)
        loss = nn.functional.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--port", default="29623")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    cores = sorted(os.sched_getaffinity(0))[:2]
    packer = mp.get_context("spawn").Process(target=pack_archive, args=(cores[1],), daemon=True)
    packer.start()
    mp.spawn(train, (cores, args), nprocs=2)
