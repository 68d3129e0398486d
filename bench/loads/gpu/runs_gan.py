"""A GAN: two optimizers, each updated once a step."""

import common
import torch

args = common.arguments()
width = common.sized(args, 1024, 32)
generator = common.layers(width, 6).to(args.device)
critic = torch.nn.Sequential(common.layers(width, 6), torch.nn.Linear(width, 1)).to(args.device)
of_critic = torch.optim.SGD(critic.parameters(), lr=1e-3)
of_generator = torch.optim.SGD(generator.parameters(), lr=1e-3)
real, noise = torch.randn(2, 256, width, device=args.device)
losses = []
for _ in common.steps(args, losses):
    drawn = generator(noise)
    of_critic.zero_grad()
    (critic(drawn.detach()).mean() - critic(real).mean()).backward()
    of_critic.step()
    of_generator.zero_grad()
    loss = -critic(drawn).mean()
    loss.backward()
    of_generator.step()
    losses.append(loss.detach())
