"""Forward and backward are timed in every step, between two synchronisations."""

# expect: verdict=host finding=device-sync-in-loop

import time

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 32)
model = common.layers(width, 8).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 1024, 16), width, device=args.device, dtype=torch.bfloat16)
times_s = []
for _ in common.steps(args):
    begin_s = time.perf_counter()
    loss = model(x).square().mean()
    if args.device == "cuda":
        torch.cuda.synchronize()  # <- finding
        # cured: pass
    times_s.append(time.perf_counter() - begin_s)
    optimizer.zero_grad()
    loss.backward()
    if args.device == "cuda":
        torch.cuda.synchronize()  # <- finding
        # cured: pass
    times_s.append(time.perf_counter() - begin_s)
    optimizer.step()
