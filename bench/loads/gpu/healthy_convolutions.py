"""A compiled convolutional network in 16 bits, channels last, its kernels chosen by timing them."""

# expect: verdict=healthy finding=none

import common
import torch

args = common.arguments()
torch.backends.cudnn.benchmark = True
model = common.residual_net(common.sized(args, 256, 8), common.sized(args, 6, 1))
model = model.to(args.device, memory_format=torch.channels_last)
trained = torch.compile(model) if args.device == "cuda" else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
side = common.sized(args, 56, 8)
images = torch.randn(common.sized(args, 128, 4), 3, side, side, device=args.device)
images = images.to(memory_format=torch.channels_last)
classes = torch.randint(10, (len(images),), device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(trained(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
