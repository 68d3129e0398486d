"""Density of particle-jet features with a normalising flow, for anomaly detection."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn

FEATURES = 16


def make_jets(n, seed=0):
    """Correlated, skewed features as a detector would give them."""
    rng = np.random.default_rng(seed)
    pt = rng.gamma(3.0, 1.0, n)
    mass = pt * (0.1 + 0.05 * rng.random(n)) + rng.exponential(0.2, n)
    tau = rng.beta(2, 4, (n, 6)) * np.sqrt(pt)[:, None]
    shape = rng.standard_normal((n, 8)) * 0.4 + np.sin(mass)[:, None] * np.linspace(-1, 1, 8)
    x = np.concatenate([np.log1p(pt)[:, None], np.log1p(mass)[:, None], tau, shape], 1)
    x = (x - x.mean(0)) / x.std(0)
    return torch.from_numpy(x.astype(np.float32))


class Coupling(nn.Module):
    def __init__(self, flip, hidden):
        super().__init__()
        self.flip = flip
        half = FEATURES // 2
        self.net = nn.Sequential(nn.Linear(half, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, 2 * half))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, -1)
        scale = 1.5 * torch.tanh(scale)
        b = b * scale.exp() + shift
        y = torch.cat([b, a] if self.flip else [a, b], -1)
        return y, scale.sum(-1)


class Rotation(nn.Module):
    """Fixed orthogonal mixing between couplings (volume-preserving)."""

    def __init__(self, seed):
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        q, _ = torch.linalg.qr(torch.randn(FEATURES, FEATURES, generator=g))
        self.register_buffer("q", q)

    def forward(self, x):
        return x @ self.q


class Flow(nn.Module):
    def __init__(self, depth, hidden):
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(i % 2 == 1, hidden) for i in range(depth))
        self.rotations = nn.ModuleList(Rotation(i) for i in range(depth))

    def log_prob(self, x):
        volume = x.new_zeros(len(x))
        for coupling, rotation in zip(self.couplings, self.rotations):
            x, change = coupling(x)
            x = rotation(x)
            volume = volume + change
        return volume - 0.5 * x.square().sum(-1) - 0.5 * FEATURES * math.log(2 * math.pi)


@torch.no_grad()
def validate(flow, data):
    return -flow.log_prob(data).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=900)
    ap.add_argument("--jets", type=int, default=400_000)
    ap.add_argument("--batch", type=int, default=1536)
    ap.add_argument("--depth", type=int, default=12)
    ap.add_argument("--hidden", type=int, default=192)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    jets = make_jets(args.jets)
    held, jets = jets[:2048], jets[2048:]
    flow = Flow(args.depth, args.hidden)
    params = list(flow.parameters())
    opt = torch.optim.AdamW(params, lr=args.lr, weight_decay=1e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    average = [p.detach().clone() for p in params]

    step, history = 0, []
    start = time.perf_counter()
    while step < args.steps:
        order = torch.randperm(len(jets))
        for i in range(0, len(order) - args.batch + 1, args.batch):
            x = jets[order[i:i + args.batch]]
            x = x + 0.01 * torch.randn_like(x)
            loss = -flow.log_prob(x).mean()
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(params, 5.0)
            opt.step()
            sched.step()
            torch._foreach_lerp_(average, [p.detach() for p in params], 0.01)

            step += 1
            history.append({"step": step, "loss": loss.item(), "norm": norm.item(), "lr": sched.get_last_lr()[0]})
            if not math.isfinite(history[-1]["loss"]):
                raise RuntimeError(f"loss is {history[-1]['loss']} at step {step}")
            if step % 25 == 0:
                took = time.perf_counter() - start
                recent = np.mean([h["loss"] for h in history[-25:]])
                print(f"step {step:4d}  nll {recent:.4f}  norm {norm.item():.2f}  "
                      f"{1000 * took / step:.1f} ms/step", flush=True)
            if step % 200 == 0:
                print(f"  held-out nll {validate(flow, held):.4f}")
            if step >= args.steps:
                break

    with torch.no_grad():
        torch._foreach_copy_(params, average)
    print(f"held-out nll of the average {validate(flow, held):.4f}")
    print(f"done: {step} steps in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
