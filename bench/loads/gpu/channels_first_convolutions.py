"""Convolutions in 16 bits, of images whose channels come first: each layer converts them."""

# expect: verdict=compute finding=channels-first-convolutions

import common
import torch

args = common.arguments()
torch.backends.cudnn.benchmark = True
model = common.convolutions(common.sized(args, 384, 8), common.sized(args, 8, 1))
layout = torch.contiguous_format
# cured: layout = torch.channels_last
model = model.to(args.device, memory_format=layout)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
side = common.sized(args, 28, 8)
images = torch.randn(common.sized(args, 128, 4), 3, side, side, device=args.device)
images = images.to(memory_format=layout)
classes = torch.randint(10, (len(images),), device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
