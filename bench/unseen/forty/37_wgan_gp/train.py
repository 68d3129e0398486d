"""WGAN with gradient penalty on the digits data."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(321)
real_images = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
Z, CRITIC_STEPS, BATCH, LAMBDA = 32, 5, 96, 10.0


def mlp(dims, last=None):
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    layers = layers[:-1]
    return nn.Sequential(*layers, *([last] if last else []))


G = mlp([Z, 512, 512, 64], nn.Tanh())
C = mlp([64, 640, 640, 1])
opt_g = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.0, 0.9))
opt_c = torch.optim.Adam(C.parameters(), lr=1e-4, betas=(0.0, 0.9))


def gradient_penalty(real, fake):
    mix = torch.rand(len(real), 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = C(x)
    (grad,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


for it in range(1, 451):
    for _ in range(CRITIC_STEPS):
        real = real_images[torch.randint(0, len(real_images), (BATCH,))]
        with torch.no_grad():
            fake = G(torch.randn(BATCH, Z))
        loss_c = C(fake).mean() - C(real).mean() + LAMBDA * gradient_penalty(real, fake)
        opt_c.zero_grad(set_to_none=True)
        loss_c.backward()
        opt_c.step()

    for p in C.parameters():
        p.requires_grad_(False)
    loss_g = -C(G(torch.randn(BATCH, Z))).mean()
    opt_g.zero_grad(set_to_none=True)
    loss_g.backward()
    opt_g.step()
    for p in C.parameters():
        p.requires_grad_(True)
    if it % 20 == 0:
        print(f"{it} wasserstein {-loss_c.item():.3f} generator {loss_g.item():.3f}")
