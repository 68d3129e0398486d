"""Convolutions whose sizes never change, by the kernels that cuDNN guesses to be fast."""

# expect: verdict=compute finding=untuned-convolutions

import common
import torch

args = common.arguments()
torch.backends.cudnn.benchmark = False
# cured: torch.backends.cudnn.benchmark = True
model = common.convolutions(common.sized(args, 384, 8), common.sized(args, 8, 1))
model = model.to(args.device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
side = common.sized(args, 28, 8)
images = torch.randn(common.sized(args, 96, 4), 3, side, side, device=args.device)
images = images.to(memory_format=torch.channels_last)
classes = torch.randint(10, (len(images),), device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
