"""What the model puts out is copied to the host in every step, which waits for it."""

# expect: verdict=host finding=device-sync-in-loop

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 32)
model = common.layers(width, 8).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 1024, 16), width, device=args.device, dtype=torch.bfloat16)
shown = None
for _ in common.steps(args):
    y = model(x)
    shown = y[:1].detach().cpu()  # <- finding
    # cured: shown = y[:1].detach()
    loss = y.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
