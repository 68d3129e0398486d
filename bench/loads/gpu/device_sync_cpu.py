"""What each layer puts out is copied to the host in every step, which waits for it."""

# expect: verdict=host finding=device-sync-in-loop

import common
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, common.sized(args, 24, 2)).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 4096, 16), width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    y, shown = x, []
    for layer in model:
        y = layer(y)
        shown.append(y[:1].detach().cpu())  # <- finding
        # cured: shown.append(y[:1].detach())
    loss = y.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
