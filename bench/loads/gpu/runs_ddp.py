"""DistributedDataParallel with one rank: NCCL on a device, gloo on a CPU."""

import tempfile

import common
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

args = common.arguments()
with tempfile.TemporaryDirectory() as folder:
    backend = "nccl" if args.device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{folder}/met", rank=0, world_size=1)
    width = common.sized(args, 2048, 32)
    model = DistributedDataParallel(common.layers(width, 8).to(args.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, width, device=args.device)
    losses = []
    for _ in common.steps(args, losses):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    dist.destroy_process_group()
