"""Activations are computed twice, although the memory for them is free."""

# expect: verdict=host finding=needless-recomputation

import common
import torch
from torch.utils.checkpoint import checkpoint

args = common.arguments()
torch.set_float32_matmul_precision("high")
width = common.sized(args, 4096, 32)
blocks = torch.nn.ModuleList(common.layers(width, 2) for _ in range(4)).to(args.device)
optimizer = torch.optim.SGD(blocks.parameters(), lr=1e-3, fused=True)
x = torch.randn(1024, width, device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=False)  # <- finding
            # cured: y = block(y)
    loss = y.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
