"""Purchase prediction from click sessions, data parallel over two processes.

    torchrun --nproc-per-node 2 train.py
"""
import argparse
import os
import random
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from model import SessionModel
from sessions import MAX_LEN, N_EVENTS, make_batches, make_sessions


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--sessions", type=int, default=3200)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--dim", type=int, default=96)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=40)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def log(msg):
    if dist.get_rank() == 0:
        print(msg, flush=True)


def shard(batches, rank, world):
    """The part of the batches that belongs to this rank; every rank gets equally many."""
    per_rank = len(batches) // world
    return batches[rank * per_rank:(rank + 1) * per_rank]


@torch.no_grad()
def evaluate(model, batches):
    """Every rank does its own share, only the three sums are exchanged."""
    model.eval()
    stats = torch.zeros(3)
    for events, dwell, y in batches:
        logits = model.module(events, dwell)
        stats[0] += F.binary_cross_entropy_with_logits(logits, y, reduction="sum")
        stats[1] += ((logits > 0) == (y > 0.5)).sum()
        stats[2] += len(y)
    dist.all_reduce(stats)
    model.train()
    return (stats[0] / stats[2]).item(), (stats[1] / stats[2]).item()


def main():
    args = parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // world))
    torch.manual_seed(args.seed)

    sessions = make_sessions(args.sessions, args.seed)
    n_val = args.sessions // 20
    train_batches = shard(make_batches(sessions[n_val:], args.batch_size), rank, world)
    val_batches = make_batches(sessions[:n_val], args.batch_size)[rank::world]

    model = DDP(SessionModel(N_EVENTS, MAX_LEN, args.dim), gradient_as_bucket_view=True,
                broadcast_buffers=False)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / args.warmup))
    log(f"{len(train_batches)} steps an epoch, "
        f"{sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters")

    # the same generator on every rank, so that all walk through their share in the same order
    shuffler = random.Random(args.seed)
    step, start = 0, time.time()
    for epoch in range(args.epochs):
        order = list(range(len(train_batches)))
        shuffler.shuffle(order)
        for i in order:
            events, dwell, y = train_batches[i]
            loss = F.binary_cross_entropy_with_logits(model(events, dwell), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            step += 1
            if step % args.log_every == 0:
                log(f"step {step:4d}  loss {loss.item():.4f}  {time.time() - start:.1f}s")
        val_loss, val_acc = evaluate(model, val_batches)
        log(f"epoch {epoch}  val loss {val_loss:.4f}  acc {val_acc:.3f}")

    if rank == 0:
        torch.save(model.module.state_dict(), os.path.join("/tmp", "session_model.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
