"""A convolutional network in channels-last memory, in 16 bits."""

import common
import torch

args = common.arguments()
torch.backends.cudnn.deterministic = True
model = common.residual_net(common.sized(args, 128, 8), common.sized(args, 8, 1))
model = model.to(args.device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
side = common.sized(args, 56, 8)
images = torch.randn(common.sized(args, 64, 4), 3, side, side, device=args.device)
images = images.to(memory_format=torch.channels_last)
classes = torch.randint(10, (len(images),), device=args.device)
losses = []
for _ in common.steps(args, losses):
    with torch.autocast(args.device, torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
