"""Two ranks train; what is wrong with one of them is said on the command line, and what it came to at the end.

torchrun --nproc-per-node 2 planted.py --late 1 --kind data --delay-ms 25
"""

import argparse
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

# torch 2.13 aborts a process that ends while gloo's threads still let go of the last exchange, or hangs where
# one of them waits for the GIL, with which it joins the threads of a group when its last model goes.
ENDS_S = 0.5


class Delay:
    """What one rank does longer than the other, every so many steps; counts how long it really was."""

    def __init__(self, args, rank):
        self.own = args.late == rank
        self.kind, self.every, self.seconds = args.kind, args.every, args.delay_ms / 1e3
        self.calls, self.total_s = 0, 0.0

    def at(self, kind):
        if not self.own or kind != self.kind:
            return
        self.calls += 1
        if self.calls % self.every == 0:
            begin = time.perf_counter()
            if kind == "compute":
                work = torch.ones(64, 64)
                while time.perf_counter() - begin < self.seconds:
                    work @ work
            else:
                time.sleep(self.seconds)
            self.total_s += time.perf_counter() - begin


class Batches(Dataset):
    """A batch is one sample of this: a delay is once a step."""

    def __init__(self, count, delay, width):
        self.count, self.delay, self.width = count, delay, width

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        self.delay.at("data")
        random = torch.Generator().manual_seed(number)
        x = torch.randn(32, self.width, generator=random)
        return x, (x.sum(1) > 0).long()


class Net(nn.Module):
    def __init__(self, width, depth, delay):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)), nn.Linear(width, 2))
        self.delay = delay

    def forward(self, x):
        self.delay.at("compute")
        return self.layers(x)


def go_wrong(fault, once):
    if once:
        open(once, "w").close()
    if fault == "raise":
        raise ValueError("this batch is broken")
    if fault == "exit":
        sys.exit(7)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        while True:
            time.sleep(1)


def train(args, rank, delay, model):
    """When this rank came to each backward pass, by the clock that both share."""
    arrivals = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = args.steps - args.fewer if rank == args.late else args.steps
    for step, (x, y) in enumerate(DataLoader(Batches(steps, delay, args.width), batch_size=None), 1):
        if rank == args.late and step == args.at and not os.path.exists(args.once):
            go_wrong(args.fault, args.once)
        delay.at("host")
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        arrivals.append(time.perf_counter())
        loss.backward()
        optimizer.step()
    return arrivals


def join():
    """Meet the other ranks; what those of an earlier attempt left in the store would lead nowhere."""
    store, rank, world = next(dist.rendezvous("env://"))
    own = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
    dist.init_process_group("gloo", store=own, rank=rank, world_size=world)
    return rank


def team(rank, size):
    """The group of `size` ranks in a row that this one is in, or None where all of them exchange."""
    if not size:
        return None
    firsts = range(0, dist.get_world_size(), size)
    groups = [dist.new_group(list(range(first, first + size))) for first in firsts]  # all ranks make all
    return groups[rank // size]


def main(args):
    rank = join()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.pin:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    delay = Delay(args, rank)
    model = DistributedDataParallel(Net(args.width, args.depth, delay), process_group=team(rank, args.team))
    if args.fewer:
        with model.join():
            arrivals = train(args, rank, delay, model)
    else:
        arrivals = train(args, rank, delay, model)
    told = {"rank": rank, "planted_s": delay.total_s, "arrivals": [round(at, 5) for at in arrivals]}
    sys.stdout.write(f"told: {json.dumps(told)}\n")  # in one piece: ranks write at the same time
    dist.destroy_process_group()
    time.sleep(ENDS_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--late", type=int, default=1)
    parser.add_argument("--kind", choices=["none", "data", "compute", "host"], default="none")
    parser.add_argument("--delay-ms", type=float, default=25)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--fault", choices=["none", "raise", "exit", "kill", "hang"], default="none")
    parser.add_argument("--at", type=int, default=30)
    parser.add_argument(
        "--once", default="", metavar="FILE", help="it goes wrong only while there is no such file"
    )
    parser.add_argument("--fewer", type=int, default=0)
    parser.add_argument("--team", type=int, default=0, help="ranks that exchange with each other only")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    main(parser.parse_args())
