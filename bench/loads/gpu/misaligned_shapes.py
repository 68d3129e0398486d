"""As many classes as GPT-2 has words: an odd number."""

# expect: verdict=compute finding=misaligned-shapes

import common
import torch

args = common.arguments()
classes = common.sized(args, 50257, 61)
# cured: classes = common.sized(args, 50304, 64)
width = common.sized(args, 1024, 32)
head = torch.nn.Linear(width, classes, bias=False).to(args.device)
optimizer = torch.optim.SGD(head.parameters(), lr=1e-3, fused=True)
x = torch.randn(4096 if args.device == "cuda" else 16, width, device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        y = head(x)
    loss = y.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
