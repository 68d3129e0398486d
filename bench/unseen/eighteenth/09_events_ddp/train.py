"""Event-sequence classification on several ranks.

    torchrun --standalone --nproc_per_node 2 train.py
    torchrun --standalone --nproc_per_node 2 train.py --steps 40
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from dataset import EventLog, PadCollate
from engine import Engine
from model import EventEncoder
from samplers import LengthGroupedBatches


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=260)
    ap.add_argument("--batch-size", type=int, default=12)
    ap.add_argument("--sessions", type=int, default=6000)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--lr", type=float, default=6e-4)
    ap.add_argument("--log-every", type=int, default=40)
    ap.add_argument("--seed", type=int, default=21)
    return ap.parse_args()


def main():
    args = get_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    torch.manual_seed(args.seed)

    data = EventLog(args.sessions, seed=args.seed)
    batches = LengthGroupedBatches(
        data.lengths, args.batch_size, rank=rank, world_size=world, seed=args.seed
    )
    loader = DataLoader(data, batch_sampler=batches, collate_fn=PadCollate(multiple=8))
    model = EventEncoder(data.n_types, data.n_labels, dim=args.dim, layers=args.layers)
    ddp = DistributedDataParallel(model)
    engine = Engine(ddp, loader, batches, lr=args.lr, total_steps=args.steps, log_every=args.log_every)
    try:
        engine.fit()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
