"""Physics-informed network for the viscous Burgers equation  u_t + u u_x = nu u_xx  on [-1, 1] x [0, 1]."""
import argparse
import math
import time

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        sizes = [2] + [width] * depth
        layers = []
        for a, b in zip(sizes[:-1], sizes[1:]):
            layers += [nn.Linear(a, b), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


class Burgers:
    """The trial solution, its derivatives and the losses."""

    def __init__(self, net, nu):
        self.net, self.nu = net, nu

    def u(self, x, t):
        # hard boundary condition u(-1, t) = u(1, t) = 0
        return (1 - x ** 2) * self.net(x, t)

    @staticmethod
    def grad(out, inp):
        return torch.autograd.grad(out, inp, grad_outputs=torch.ones_like(out), create_graph=True)[0]

    def residual(self, x, t):
        u = self.u(x, t)
        u_x, u_t = torch.autograd.grad(u, (x, t), grad_outputs=torch.ones_like(u), create_graph=True)
        u_xx = self.grad(u_x, x)
        return u_t + u * u_x - self.nu * u_xx

    def initial_loss(self, x):
        target = -torch.sin(math.pi * x)
        return (self.u(x, torch.zeros_like(x)) - target).pow(2).mean()

    def physics_loss(self, x, t):
        return self.residual(x, t).pow(2).mean()


class Collocation:
    """Latin-hypercube-like points in space and time, redrawn now and then."""

    def __init__(self, n, seed):
        self.n = n
        self.gen = torch.Generator().manual_seed(seed)

    def _strata(self):
        return (torch.randperm(self.n, generator=self.gen) + torch.rand(self.n, generator=self.gen)) / self.n

    def draw(self):
        x = (2 * self._strata() - 1).unsqueeze(1).requires_grad_()
        t = self._strata().unsqueeze(1).requires_grad_()
        return x, t


@torch.no_grad()
def reference_error(problem, n_x=256, n_t=5, nu=0.01 / math.pi, order=60):
    """Compare with the Cole-Hopf solution by Gauss-Hermite quadrature."""
    import numpy as np
    nodes, weights = np.polynomial.hermite.hermgauss(order)
    x = np.linspace(-1, 1, n_x)
    worst = []
    for t in np.linspace(0.1, 0.5, n_t):
        y = x[:, None] - nodes * 2 * np.sqrt(nu * t)
        f = np.exp(-np.cos(np.pi * y) / (2 * np.pi * nu))
        exact = -(weights * np.sin(np.pi * y) * f).sum(1) / (weights * f).sum(1)
        xs = torch.tensor(x, dtype=torch.float32).unsqueeze(1)
        guess = problem.u(xs, torch.full_like(xs, float(t))).squeeze(1).numpy()
        worst.append(np.sqrt(((guess - exact) ** 2).sum() / (exact ** 2).sum()))
    return sum(worst) / len(worst)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--points", type=int, default=3000)
    parser.add_argument("--initial-points", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--redraw", type=int, default=25)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    problem = Burgers(Net(args.width, args.depth), nu=0.01 / math.pi)
    points = Collocation(args.points, args.seed)
    x0 = torch.linspace(-1, 1, args.initial_points).unsqueeze(1)
    opt = torch.optim.Adam(problem.net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps)

    began = time.time()
    for step in range(args.steps):
        if step % args.redraw == 0:
            x, t = points.draw()
        physics = problem.physics_loss(x, t)
        initial = problem.initial_loss(x0)
        loss = physics + 10 * initial
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 50 == 0:
            print(f"step {step:4d}  physics {physics.item():.5f}  initial {initial.item():.5f}  "
                  f"{time.time() - began:.1f}s", flush=True)
    print(f"relative L2 error {reference_error(problem):.4f}")
    torch.save(problem.net.state_dict(), "/tmp/burgers_pinn.pt")


if __name__ == "__main__":
    main()
