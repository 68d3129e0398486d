"""Two processes fit a deep network of small layers to the strength of concrete; gradients leave in many parcels."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

INGREDIENTS = 8


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.inner(self.norm(x)))


def mixtures(count):
    """Recipes and how strong the concrete gets: the law is made up."""
    random = torch.Generator().manual_seed(0)
    recipes = torch.rand(count, INGREDIENTS, generator=random)
    water, cement, age = recipes[:, 0], recipes[:, 1], recipes[:, 2]
    strength = cement / (0.3 + water) * torch.log1p(9 * age) + 0.3 * recipes[:, 3:].prod(1)
    return TensorDataset(recipes, strength.unsqueeze(1))


def train(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    net = nn.Sequential(
        nn.Linear(INGREDIENTS, args.width),
        *(Residual(args.width) for _ in range(args.depth)),
        nn.Linear(args.width, 1),
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    data = mixtures(args.rows)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for recipes, strength in loader:
            loss = nn.functional.mse_loss(model(recipes), strength)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16_384)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=60)
    parser.add_argument("--port", default="29624")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(train, (args,), nprocs=2)
