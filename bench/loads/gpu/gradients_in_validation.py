"""A validation after every fourth step, with all that a backward pass would need."""

# expect: verdict=compute finding=gradients-in-validation

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 32)
model = common.layers(width, 8).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 1024, 16), width, device=args.device, dtype=torch.bfloat16)
held_out = torch.randn(8, *x.shape, device=args.device, dtype=torch.bfloat16)
recording = torch.enable_grad
# cured: recording = torch.no_grad
worst = []
for step in common.steps(args):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        model.eval()
        with recording():
            worst = [model(part).square().mean() for part in held_out]  # <- finding
        model.train()
