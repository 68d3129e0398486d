"""A WGAN-GP: five critic updates for one of the generator, the count starting anew with each epoch."""

# One step is what belongs to one generator update. Twelve batches an epoch: the generator is updated on the
# 1st, 6th and 11th, and the critic's update on the 12th belongs to the next epoch's first step.
# truth: steps=9 marker=update
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
generator = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 16))
critic = nn.Sequential(nn.Linear(16, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
loader = DataLoader(TensorDataset(torch.randn(96, 16)), batch_size=8, shuffle=True)


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for _ in range(3):
    for index, (real,) in enumerate(loader):
        c_optimizer.zero_grad()
        fake = generator(torch.randn(len(real), 8)).detach()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
        loss.backward()
        c_optimizer.step()
        if index % 5 == 0:
            g_optimizer.zero_grad()
            g_loss = -critic(generator(torch.randn(len(real), 8))).mean()
            g_loss.backward()
            g_optimizer.step()
print(f"loss {loss.item():.6f} {g_loss.item():.6f}")
