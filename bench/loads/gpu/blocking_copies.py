"""Batches lie in pinned memory, and each copy of a part waits until the device has it."""

# expect: verdict=transfer finding=blocking-copies

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 64)
batches = [torch.randn(common.sized(args, 2048, 64), width) for _ in range(4)]
if args.device == "cuda":
    batches = [batch.pin_memory() for batch in batches]
model = common.layers(width, common.sized(args, 8, 2)).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
for step in common.steps(args):
    batch = batches[step % len(batches)]
    parts = [part.to(args.device) for part in batch.chunk(64)]  # <- finding
    # cured: parts = [part.to(args.device, non_blocking=True) for part in batch.chunk(64)]
    loss = model(torch.cat(parts).bfloat16()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
