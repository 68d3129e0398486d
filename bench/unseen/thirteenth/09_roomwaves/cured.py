"""Physics-informed network for sound in a rigid rectangular room (linear acoustics, first-order form).

    p_t + rho c^2 (u_x + v_y) = 0,    rho u_t + p_x = 0,    rho v_t + p_y = 0

Initial pressure is a superposition of room modes, so that the exact field is known and the error can be followed.
"""
import argparse
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn

LX, LY, T_END = 1.6, 1.0, 1.0
RHO, C = 1.0, 1.0
MODES = [(1, 0, 0.6), (0, 1, 0.4), (2, 1, 0.5)]


def exact(x, y, t):
    p = torch.zeros_like(x)
    for m, n, a in MODES:
        kx, ky = m * math.pi / LX, n * math.pi / LY
        w = C * math.sqrt(kx * kx + ky * ky)
        p = p + a * torch.cos(kx * x) * torch.cos(ky * y) * torch.cos(w * t)
    return p


class Sine(nn.Module):
    def __init__(self, w0=1.0):
        super().__init__()
        self.w0 = w0

    def forward(self, z):
        return torch.sin(self.w0 * z)


class FieldNet(nn.Module):
    """(x, y, t) -> (p, u, v)"""

    def __init__(self, width=128, depth=5):
        super().__init__()
        layers = [nn.Linear(3, width), Sine(3.0)]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), Sine()]
        layers.append(nn.Linear(width, 3))
        self.net = nn.Sequential(*layers)
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)
        self.register_buffer("centre", torch.tensor([LX / 2, LY / 2, T_END / 2]))
        self.register_buffer("scale", torch.tensor([LX / 2, LY / 2, T_END / 2]))

    def forward(self, x, y, t):
        z = (torch.cat([x, y, t], dim=1) - self.centre) / self.scale
        out = self.net(z)
        return out[:, 0:1], out[:, 1:2], out[:, 2:3]


def grad(out, wrt):
    return torch.autograd.grad(out, wrt, grad_outputs=torch.ones_like(out), create_graph=True)


class RoomPINN:
    def __init__(self, args):
        self.args = args
        self.gen = torch.Generator().manual_seed(args.seed)
        self.sobol = torch.quasirandom.SobolEngine(3, scramble=True, seed=args.seed)
        self.model = FieldNet(args.width, args.depth)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma=0.998)
        self.weights = {"res": 1.0, "ic": 20.0, "bc": 5.0}
        self.resample()

    def resample(self):
        s = self.sobol.draw(self.args.n_f)
        self.xf = (s[:, 0:1] * LX).requires_grad_()
        self.yf = (s[:, 1:2] * LY).requires_grad_()
        self.tf = (s[:, 2:3] * T_END).requires_grad_()
        r = torch.rand(self.args.n_ic, 2, generator=self.gen)
        self.xi, self.yi = r[:, 0:1] * LX, r[:, 1:2] * LY
        self.ti = torch.zeros_like(self.xi)
        self.pi = exact(self.xi, self.yi, self.ti)
        n = self.args.n_bc
        r = torch.rand(2 * n, 2, generator=self.gen)
        side = (torch.rand(n, 1, generator=self.gen) < 0.5).float()
        self.xb = torch.cat([side * LX, r[n:, 0:1] * LX])
        self.yb = torch.cat([r[:n, 0:1] * LY, side * LY])
        self.tb = r[:, 1:2] * T_END

    def residuals(self, x, y, t):
        p, u, v = self.model(x, y, t)

        p_x, p_y, p_t = grad(p, (x, y, t))
        u_x, u_t = grad(u, (x, t))
        v_y, v_t = grad(v, (y, t))

        f_p = p_t + RHO * C ** 2 * (u_x + v_y)
        f_u = RHO * u_t + p_x
        f_v = RHO * v_t + p_y
        return f_p, f_u, f_v

    def loss(self):
        f_p, f_u, f_v = self.residuals(self.xf, self.yf, self.tf)
        res = f_p.square().mean() + f_u.square().mean() + f_v.square().mean()
        p0, u0, v0 = self.model(self.xi, self.yi, self.ti)
        ic = (p0 - self.pi).square().mean() + u0.square().mean() + v0.square().mean()
        _, ub, vb = self.model(self.xb, self.yb, self.tb)
        n = self.args.n_bc
        bc = ub[:n].square().mean() + vb[n:].square().mean()     # rigid walls: no normal velocity
        parts = {"res": res, "ic": ic, "bc": bc}
        return sum(self.weights[k] * parts[k] for k in parts), parts

    @torch.no_grad()
    def error(self, n=24):
        xs, ys, ts = np.meshgrid(np.linspace(0, LX, n), np.linspace(0, LY, n), np.linspace(0, T_END, 6), indexing="ij")
        x, y, t = (torch.from_numpy(a.reshape(-1, 1)).float() for a in (xs, ys, ts))
        ref = exact(x, y, t)
        return float((self.model(x, y, t)[0] - ref).norm() / ref.norm())

    def train(self):
        os.makedirs(self.args.out, exist_ok=True)
        history, start = [], time.time()
        for it in range(1, self.args.iters + 1):
            if it % self.args.resample_every == 0:
                self.resample()
            self.opt.zero_grad()
            loss, parts = self.loss()
            loss.backward()
            self.opt.step()
            self.sched.step()
            if it % 20 == 0:
                rec = {"it": it, "loss": loss.item(), **{k: v.item() for k, v in parts.items()}}
                if it % 100 == 0:
                    rec["rel_l2"] = self.error()
                    torch.save(self.model.state_dict(), os.path.join(self.args.out, "field.pt"))
                history.append(rec)
                print(" ".join(f"{k}={v:.4g}" for k, v in rec.items()), f"[{time.time() - start:.0f}s]")
        with open(os.path.join(self.args.out, "history.json"), "w") as f:
            json.dump(history, f)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=500)
    ap.add_argument("--n-f", type=int, default=1536)
    ap.add_argument("--n-ic", type=int, default=256)
    ap.add_argument("--n-bc", type=int, default=128)
    ap.add_argument("--width", type=int, default=96)
    ap.add_argument("--depth", type=int, default=5)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--resample-every", type=int, default=50)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--out", default="/tmp/roomwaves")
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    RoomPINN(args).train()
