"""Each layer is timed in every step, between two synchronisations."""

# expect: verdict=host finding=device-sync-in-loop

import time

import common
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, common.sized(args, 24, 2)).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 4096, 16), width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    y, times_s = x, []
    for layer in model:
        begin_s = time.perf_counter()
        y = layer(y)
        if args.device == "cuda":
            torch.cuda.synchronize()  # <- finding
            # cured: pass
        times_s.append(time.perf_counter() - begin_s)
    loss = y.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
