"""Physics-informed network for the decaying Taylor-Green vortex.

Companion script for the third exercise sheet. We look for three fields
u(x, y, t), v(x, y, t) and p(x, y, t) on [0, 2*pi]^2 x [0, 1] that satisfy the
incompressible Navier-Stokes equations

    u_t + u u_x + v u_y + p_x - nu (u_xx + u_yy) = 0
    v_t + u v_x + v v_y + p_y - nu (v_xx + v_yy) = 0
    u_x + v_y                                    = 0

together with the initial velocity and periodic sides. The exact solution is
known, so we can watch the true error while training.

    python train.py
    python train.py --steps 100 --points 400
"""
import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

X, Y, T = 0, 1, 2
TWO_PI = 2.0 * math.pi


# --------------------------------------------------------------------------
# exact solution
# --------------------------------------------------------------------------
def taylor_green(pts, nu):
    x, y, t = pts[:, X:X + 1], pts[:, Y:Y + 1], pts[:, T:T + 1]
    decay = torch.exp(-2.0 * nu * t)
    u = -torch.cos(x) * torch.sin(y) * decay
    v = torch.sin(x) * torch.cos(y) * decay
    p = -0.25 * (torch.cos(2 * x) + torch.cos(2 * y)) * decay ** 2
    return torch.cat([u, v, p], dim=1)


# --------------------------------------------------------------------------
# network
# --------------------------------------------------------------------------
class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


class FieldNet(nn.Module):
    """(x, y, t) -> (u, v, p)"""

    def __init__(self, width=64, depth=5, activation="tanh", t_max=1.0):
        super().__init__()
        act = {"tanh": nn.Tanh, "sine": Sine, "silu": nn.SiLU}[activation]
        layers = [nn.Linear(3, width), act()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), act()]
        layers += [nn.Linear(width, 3)]
        self.body = nn.Sequential(*layers)
        self.register_buffer("shift", torch.tensor([math.pi, math.pi, 0.5 * t_max]))
        self.register_buffer("scale", torch.tensor([math.pi, math.pi, 0.5 * t_max]))
        for m in self.body:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, pts):
        return self.body((pts - self.shift) / self.scale)


# --------------------------------------------------------------------------
# equations
# --------------------------------------------------------------------------
def gradient(field, pts):
    """All first derivatives of an already evaluated (N, 1) field, (N, 1) each."""
    (g,) = torch.autograd.grad(field, pts, torch.ones_like(field), create_graph=True)
    return g.split(1, dim=1)


class NavierStokes2D:
    def __init__(self, net, nu):
        self.net = net
        self.nu = nu

    def residuals(self, pts):
        """Residuals of x-momentum, y-momentum and continuity, each (N, 1)."""
        pts = pts.detach().requires_grad_(True)
        u, v, p = self.net(pts).split(1, dim=1)
        u_x, u_y, u_t = gradient(u, pts)
        v_x, v_y, v_t = gradient(v, pts)
        p_x, p_y, _ = gradient(p, pts)
        u_xx, u_yy = gradient(u_x, pts)[X], gradient(u_y, pts)[Y]
        v_xx, v_yy = gradient(v_x, pts)[X], gradient(v_y, pts)[Y]
        mom_x = u_t + u * u_x + v * u_y + p_x - self.nu * (u_xx + u_yy)
        mom_y = v_t + u * v_x + v * v_y + p_y - self.nu * (v_xx + v_yy)
        continuity = u_x + v_y
        return mom_x, mom_y, continuity


# --------------------------------------------------------------------------
# points
# --------------------------------------------------------------------------
class Sampler:
    """Draws the points at which the conditions are enforced.

    A part of the interior points is kept where the residual was largest
    (residual-based refinement), the rest is redrawn for every step.
    """

    def __init__(self, n_interior, n_initial, n_sides, t_max, n_hard, seed):
        self.n_interior, self.n_initial, self.n_sides = n_interior, n_initial, n_sides
        self.t_max = t_max
        self.n_hard = n_hard
        self.hard = None
        self.gen = torch.Generator().manual_seed(seed)

    def box(self, n):
        pts = torch.rand(n, 3, generator=self.gen)
        return pts * torch.tensor([TWO_PI, TWO_PI, self.t_max])

    def interior(self):
        if self.hard is None:
            return self.box(self.n_interior)
        fresh = self.box(self.n_interior - len(self.hard))
        return torch.cat([fresh, self.hard])

    def initial(self):
        pts = self.box(self.n_initial)
        pts[:, T] = 0.0
        return pts

    def sides(self):
        """Pairs of points on opposite sides of the square."""
        a = self.box(self.n_sides)
        b = a.clone()
        half = self.n_sides // 2
        a[:half, X], b[:half, X] = 0.0, TWO_PI
        a[half:, Y], b[half:, Y] = 0.0, TWO_PI
        return a, b

    def refine(self, equations, pool=1000):
        cand = self.box(pool)
        score = sum(r.detach().square() for r in equations.residuals(cand)).squeeze(1)
        keep = score.topk(self.n_hard).indices
        self.hard = cand[keep]
        return score.mean().sqrt().item()


# --------------------------------------------------------------------------
# validation
# --------------------------------------------------------------------------
@torch.no_grad()
def validate(net, nu, t_max, n=24):
    """Relative L2 errors of u, v, p on a regular grid at three times."""
    axis = torch.linspace(0, TWO_PI, n)
    gx, gy = torch.meshgrid(axis, axis, indexing="ij")
    rows = []
    for t in (0.0, 0.5 * t_max, t_max):
        rows.append(torch.stack([gx.flatten(), gy.flatten(), torch.full((n * n,), t)], dim=1))
    pts = torch.cat(rows)
    pred, true = net(pts), taylor_green(pts, nu)
    # the pressure is only defined up to a constant
    pred[:, 2] -= pred[:, 2].mean() - true[:, 2].mean()
    err = (pred - true).norm(dim=0) / true.norm(dim=0)
    return dict(zip(("u", "v", "p"), err.tolist()))


# --------------------------------------------------------------------------
# training
# --------------------------------------------------------------------------
def parse_args():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--steps", type=int, default=550)
    ap.add_argument("--points", type=int, default=800, help="interior points per step")
    ap.add_argument("--initial", type=int, default=256)
    ap.add_argument("--sides", type=int, default=128)
    ap.add_argument("--hard", type=int, default=100, help="points kept by the refinement")
    ap.add_argument("--refine-every", type=int, default=100)
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--depth", type=int, default=5)
    ap.add_argument("--activation", default="tanh", choices=["tanh", "sine", "silu"])
    ap.add_argument("--nu", type=float, default=0.05)
    ap.add_argument("--t-max", type=float, default=1.0)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--w-initial", type=float, default=20.0)
    ap.add_argument("--w-sides", type=float, default=5.0)
    ap.add_argument("--log-every", type=int, default=50)
    ap.add_argument("--val-every", type=int, default=100)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--out", default="runs/tgv")
    return ap.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)

    net = FieldNet(args.width, args.depth, args.activation, args.t_max)
    equations = NavierStokes2D(net, args.nu)
    sampler = Sampler(args.points, args.initial, args.sides, args.t_max, args.hard, args.seed)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)
    n_par = sum(p.numel() for p in net.parameters())
    print(f"network with {n_par} parameters, nu={args.nu}, {args.points} interior points")

    history, best = [], float("inf")
    start = time.time()
    for step in range(1, args.steps + 1):
        mom_x, mom_y, continuity = equations.residuals(sampler.interior())
        loss_pde = mom_x.square().mean() + mom_y.square().mean() + continuity.square().mean()

        pts0 = sampler.initial()
        target = taylor_green(pts0, args.nu)[:, :2]
        loss_ic = (net(pts0)[:, :2] - target).square().mean()

        side_a, side_b = sampler.sides()
        loss_bc = (net(side_a) - net(side_b)).square().mean()

        loss = loss_pde + args.w_initial * loss_ic + args.w_sides * loss_bc
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        sched.step()

        if step % args.log_every == 0 or step == 1:
            rate = step / (time.time() - start)
            print(f"step {step:5d}  loss {loss.item():.4e}  pde {loss_pde.item():.3e}  "
                  f"ic {loss_ic.item():.3e}  bc {loss_bc.item():.3e}  "
                  f"lr {sched.get_last_lr()[0]:.2e}  {rate:.1f} it/s", flush=True)

        if step % args.refine_every == 0:
            rms = sampler.refine(equations)
            print(f"            refined the point set, rms residual {rms:.3e}")

        if step % args.val_every == 0 or step == args.steps:
            err = validate(net, args.nu, args.t_max)
            history.append({"step": step, **err})
            print(f"            rel. error  u {err['u']:.4f}  v {err['v']:.4f}  p {err['p']:.4f}")
            if err["u"] + err["v"] < best:
                best = err["u"] + err["v"]
                torch.save(net.state_dict(), out / "best.pt")

    (out / "history.json").write_text(json.dumps(history, indent=1))
    print(f"done in {time.time() - start:.1f} s, best velocity error {best / 2:.4f}")


if __name__ == "__main__":
    main()
