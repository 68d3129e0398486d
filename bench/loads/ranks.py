"""A rank of several that exchange gradients in every step, in one of several ways; the first one tells."""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32

parser = argparse.ArgumentParser()
parser.add_argument("--way", choices=["buckets", "calls", "handles", "sharded"], required=True)
parser.add_argument("--pieces", type=int, default=1, help="buckets, calls, or sharded layers")
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--figures", required=True)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model: nn.Module = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(args.pieces)])
if args.way == "buckets":
    one_layer_mb = WIDTH * WIDTH * 4 / 2**20
    model = DistributedDataParallel(model, bucket_cap_mb=one_layer_mb)
elif args.way == "sharded":
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        fully_shard(layer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, WIDTH)
walls, cpus = [], []
for _ in range(args.steps):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    if args.way == "calls":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    elif args.way == "handles":
        for work in [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]:
            work.wait()
    optimizer.step()
    walls.append(time.perf_counter_ns())
    cpus.append(time.thread_time_ns())
if dist.get_rank() == 0:
    with open(args.figures, "w", encoding="utf-8") as file:
        json.dump({"wall_ns": walls, "cpu_ns": cpus}, file)
dist.destroy_process_group()
os._exit(0)  # the destructors of gloo's threads are none of what is measured
