"""Two processes learn the parity of bits together and add up the gradients of four small batches."""

# expect: verdict=network finding=allreduce-every-microstep

import argparse
import socket

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BITS = 64


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parities(count):
    random = torch.Generator().manual_seed(0)
    bits = torch.randint(2, (count, BITS), generator=random)
    return TensorDataset(bits.float() * 2 - 1, bits[:, :5].sum(1) % 2)


def train(rank, port, args):
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=args.ranks
    )
    torch.manual_seed(0)
    torch.set_num_threads(1)  # every process has a core of its own
    width = args.width
    net = nn.Sequential(
        nn.Linear(BITS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = parities(args.rows)
    sampler = DistributedSampler(data, args.ranks, rank)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for micro, (bits, parity) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(bits), parity) / args.accumulate
            loss.backward()  # <- finding
            if micro % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item() * args.accumulate:.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", type=int, default=6_400)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()
    multiprocessing.spawn(train, (free_port(), args), nprocs=args.ranks)
