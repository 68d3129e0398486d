"""Physics-informed network for the viscous Burgers equation: Adam first, L-BFGS to polish.

    python train.py --adam-steps 900 --lbfgs-steps 8
"""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn as nn


class SineNet(nn.Module):
    """Dense network on (t, x) with Fourier features and a hard-wired boundary condition."""

    def __init__(self, width, depth, features):
        super().__init__()
        self.register_buffer("freq", torch.randn(2, features) * torch.tensor([[1.0], [2.0]]))
        layers, i = [], 2 * features + 2
        for _ in range(depth):
            layers += [nn.Linear(i, width), nn.Tanh()]
            i = width
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, t, x):
        tx = torch.cat([t, x], 1)
        proj = tx @ self.freq
        out = self.net(torch.cat([tx, proj.sin(), proj.cos()], 1))
        return -torch.sin(math.pi * x) + t * (1 - x ** 2) * out


def residual(model, t, x, nu):
    u = model(t, x)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    u_xx, = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - nu * u_xx


def reference(nu, nx=401, nt=4000, end=1.0):
    """Finite differences on a fine grid, for the error only."""
    x = np.linspace(-1, 1, nx)
    dx, dt = x[1] - x[0], end / nt
    u = -np.sin(np.pi * x)
    for _ in range(nt):
        flux = 0.25 * (u[1:] ** 2 + u[:-1] ** 2) - 0.5 * np.maximum(np.abs(u[1:]), np.abs(u[:-1])) * (u[1:] - u[:-1]) / 2
        u[1:-1] += dt * (-(flux[1:] - flux[:-1]) / dx + nu * (u[2:] - 2 * u[1:-1] + u[:-2]) / dx ** 2)
    return torch.from_numpy(x).float()[:, None], torch.from_numpy(u).float()[:, None]


class Collocation:
    """Random points in the domain, half of them near the steep front at x = 0."""

    def __init__(self, count, seed):
        self.count = count
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self):
        t = torch.rand(self.count, 1, generator=self.generator)
        x = 2 * torch.rand(self.count, 1, generator=self.generator) - 1
        half = self.count // 2
        x[:half] = (0.15 * torch.randn(half, 1, generator=self.generator)).clamp(-1, 1)
        return t.requires_grad_(True), x.requires_grad_(True)


@torch.no_grad()
def relative_error(model, x, target):
    pred = model(torch.ones_like(x), x)
    return ((pred - target).norm() / target.norm()).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nu", type=float, default=0.02)
    p.add_argument("--points", type=int, default=2000)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--features", type=int, default=8)
    p.add_argument("--adam-steps", type=int, default=900)
    p.add_argument("--lbfgs-steps", type=int, default=8)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=100)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    model = SineNet(args.width, args.depth, args.features)
    grid_x, grid_u = reference(args.nu)
    points = Collocation(args.points, args.seed + 1)
    started = time.time()

    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.998)
    running = torch.zeros(())
    for step in range(1, args.adam_steps + 1):
        t, x = points.draw()
        loss = residual(model, t, x, args.nu).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        running += loss.detach()
        if step % args.log_every == 0:
            print(json.dumps({"phase": "adam", "step": step, "loss": round(running.item() / args.log_every, 6),
                              "error": round(relative_error(model, grid_x, grid_u), 4),
                              "s": round(time.time() - started, 1)}), flush=True)
            running.zero_()

    t, x = points.draw()
    polish = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=20, history_size=20,
                               line_search_fn="strong_wolfe")

    def closure():
        polish.zero_grad(set_to_none=True)
        loss = residual(model, t, x, args.nu).pow(2).mean()
        loss.backward()
        return loss

    for step in range(1, args.lbfgs_steps + 1):
        loss = polish.step(closure)
        print(json.dumps({"phase": "lbfgs", "step": step, "loss": round(loss.item(), 7),
                          "error": round(relative_error(model, grid_x, grid_u), 4),
                          "s": round(time.time() - started, 1)}), flush=True)
    torch.save({"model": model.state_dict(), "args": vars(args)}, "/tmp/pinn.pt")


if __name__ == "__main__":
    main()
