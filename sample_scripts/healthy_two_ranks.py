"""Two processes, one to a core, learn to count the holes in shapes: bound by their convolutions, nothing to repair."""

# expect: verdict=healthy finding=none

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SIDE = 40


def shapes(count):
    """Squares with up to three holes."""
    random = torch.Generator().manual_seed(0)
    holes = torch.randint(4, (count,), generator=random)
    images = torch.zeros(count, 1, SIDE, SIDE)
    images[:, :, 4:-4, 4:-4] = 1
    corners = torch.randint(6, SIDE - 12, (count, 3, 2), generator=random).tolist()
    for image, places, number in zip(images, corners, holes.tolist()):
        for y, x in places[:number]:
            image[0, y : y + 5, x : x + 5] = 0
    return TensorDataset(images, holes)


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]


def train(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    net = nn.Sequential(
        *block(1, 32), *block(32, 32), *block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters())
    data = shapes(args.shapes)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, holes in loader:
            loss = nn.functional.cross_entropy(model(images), holes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=2560)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--port", default="29627")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(train, (args,), nprocs=2)
