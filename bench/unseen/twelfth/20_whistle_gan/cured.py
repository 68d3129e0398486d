"""WGAN-GP on short dolphin whistles: several critic steps per generator step, averaged generator."""
import argparse
import copy
import csv
import math
import os
import tempfile
import time

import torch
import torch.nn as nn

LENGTH = 512


def make_whistles(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, LENGTH)
    def u(lo, hi):
        return lo + (hi - lo) * torch.rand(n, 1, generator=g)
    freq = u(10, 30) + u(-15, 25) * t + u(0, 6) * torch.sin(2 * math.pi * u(1, 4) * t)
    phase = 2 * math.pi * torch.cumsum(freq.clamp(min=3), dim=1) / LENGTH
    shape = torch.exp(-((t - u(0.3, 0.7)) / u(0.15, 0.4)) ** 2)
    return ((torch.sin(phase) + 0.3 * torch.sin(2 * phase)) * shape)[:, None] / 1.3


class Generator(nn.Module):
    def __init__(self, noise, width):
        super().__init__()
        self.start = nn.Linear(noise, 4 * width * 16)
        layers, c = [], 4 * width
        for o in (4 * width, 2 * width, 2 * width, width, width):
            layers += [nn.ConvTranspose1d(c, o, 4, stride=2, padding=1, bias=False),
                       nn.BatchNorm1d(o), nn.ReLU()]
            c = o
        self.body = nn.Sequential(*layers, nn.Conv1d(c, 1, 7, padding=3), nn.Tanh())

    def forward(self, z):
        return self.body(self.start(z).unflatten(1, (-1, 16)))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        layers, c = [], 1
        for o in (width, width, 2 * width, 2 * width, 4 * width):
            layers += [nn.Conv1d(c, o, 5, stride=2, padding=2), nn.LeakyReLU(0.2)]
            c = o
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * 16, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


def gradient_penalty(critic, real, fake):
    mix = torch.lerp(fake, real, torch.rand(len(real), 1, 1)).requires_grad_(True)
    grad, = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)
    return ((grad.flatten(1).norm(dim=1) - 1) ** 2).mean()


@torch.no_grad()
def update_average(average, model, decay):
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - decay)
    for a, b in zip(average.buffers(), model.buffers()):
        a.copy_(b)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--noise", type=int, default=32)
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--critic-steps", type=int, default=3)
    ap.add_argument("--lr", type=float, default=2e-4)
    args = ap.parse_args()

    torch.manual_seed(0)
    whistles = make_whistles(8_000)
    generator, critic = Generator(args.noise, args.width), Critic(args.width)
    average = copy.deepcopy(generator).requires_grad_(False)
    g_opt = torch.optim.Adam(generator.parameters(), lr=args.lr, betas=(0.0, 0.9), fused=True)
    c_opt = torch.optim.Adam(critic.parameters(), lr=args.lr, betas=(0.0, 0.9), fused=True)

    path = os.path.join(tempfile.mkdtemp(), "gan.csv")
    t0 = time.time()
    with open(path, "w", newline="") as f:
        log = csv.writer(f)
        log.writerow(["step", "critic", "generator", "gap", "penalty", "fake_std"])
        for step in range(1, args.steps + 1):
            for _ in range(args.critic_steps):
                real = whistles[torch.randint(len(whistles), (args.batch,))]
                with torch.no_grad():
                    fake = generator(torch.randn(args.batch, args.noise))
                score_real, score_fake = critic(torch.cat([real, fake])).chunk(2)
                gap = score_real.mean() - score_fake.mean()
                penalty = gradient_penalty(critic, real, fake)
                c_loss = 10 * penalty - gap
                c_opt.zero_grad()
                c_loss.backward()
                c_opt.step()

            critic.requires_grad_(False)
            fake = generator(torch.randn(args.batch, args.noise))
            g_loss = -critic(fake).mean()
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            critic.requires_grad_(True)
            update_average(average, generator, 0.999)

            log.writerow([step, c_loss.item(), g_loss.item(), gap.item(), penalty.item(),
                          fake.detach().std().item()])
            f.flush()
            if step % 50 == 0:
                print(f"step {step:4d}  gap {gap.item():.3f}  penalty {penalty.item():.4f}  "
                      f"{1000 * (time.time() - t0) / step:.1f} ms/step")

    average.eval()
    with torch.no_grad():
        sample = average(torch.randn(256, args.noise))
    print("energy of samples", sample.square().mean().item(), "of data", whistles.square().mean().item())


if __name__ == "__main__":
    main()
