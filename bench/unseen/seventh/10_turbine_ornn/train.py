"""Short-term power forecast of wind turbines with an orthogonal recurrent network."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import orthogonal

FEATURES = 8


def synth_turbines(n, hours, gen):
    """[n, hours, FEATURES]: power, wind, direction (sin, cos), temperature, rotor speed, hour (sin, cos)."""
    t = torch.arange(hours)
    gusts = torch.randn(n, hours, generator=gen)
    wind = torch.empty(n, hours)
    level = torch.zeros(n)
    for h in range(hours):
        level = 0.96 * level + 0.3 * gusts[:, h]
        wind[:, h] = level
    wind = wind + 0.5 * torch.sin(2 * math.pi * t / 24 + torch.rand(n, 1, generator=gen))
    power = torch.sigmoid(2 * wind) + 0.03 * torch.randn(n, hours, generator=gen)
    direction = torch.cumsum(0.1 * torch.randn(n, hours, generator=gen), 1)
    temp = torch.sin(2 * math.pi * t / 24).expand(n, hours) + 0.2 * torch.randn(n, hours, generator=gen)
    clock = [torch.sin(2 * math.pi * t / 24).expand(n, hours), torch.cos(2 * math.pi * t / 24).expand(n, hours)]
    return torch.stack([power, wind, direction.sin(), direction.cos(), temp, power.sqrt().nan_to_num(0), *clock], -1)


class WindowSampler:
    """Random windows out of the stacked series, a whole batch in one gather."""

    def __init__(self, series, past, future):
        self.series, self.past, self.future = series, past, future
        self.span = torch.arange(past + future)

    def batch(self, n):
        row = torch.randint(len(self.series), (n, 1))
        start = torch.randint(self.series.size(1) - len(self.span), (n, 1))
        window = self.series[row, start + self.span]
        return window[:, :self.past], window[:, self.past:, 0]


class OrthogonalRNN(nn.Module):
    """h' = modrelu(W h + U x + b) with W kept orthogonal, so that gradients neither fade nor blow up."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.inp = nn.Linear(inputs, hidden)
        self.recurrent = orthogonal(nn.Linear(hidden, hidden, bias=False))
        self.threshold = nn.Parameter(torch.zeros(hidden))

    def step(self, h, u):
        z = u + self.recurrent(h)
        return torch.sign(z) * F.relu(z.abs() + self.threshold)

    def forward(self, x):
        u = self.inp(x)
        h = x.new_zeros(len(x), self.hidden)
        states = []
        for t in range(x.size(1)):
            h = self.step(h, u[:, t])
            states.append(h)
        return torch.stack(states, 1)


class Forecaster(nn.Module):
    def __init__(self, hidden, future, quantiles):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(FEATURES, hidden), nn.GELU(), nn.Linear(hidden, hidden))
        self.rnn = OrthogonalRNN(hidden, hidden)
        self.attend = nn.MultiheadAttention(hidden, 4, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * hidden, 256), nn.GELU(), nn.Linear(256, future * quantiles))
        self.future = future

    def forward(self, x):
        states = self.rnn(self.embed(x))
        last = states[:, -1:]
        context, _ = self.attend(last, states, states, need_weights=False)
        return self.head(torch.cat([last, context], -1)).view(len(x), self.future, -1)


def pinball(pred, target, q):
    diff = target.unsqueeze(-1) - pred
    return torch.maximum(q * diff, (q - 1) * diff).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--turbines", type=int, default=60)
    p.add_argument("--past", type=int, default=60)
    p.add_argument("--future", type=int, default=12)
    p.add_argument("--batch-size", type=int, default=192)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=10)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    series = synth_turbines(args.turbines, 2000, torch.Generator().manual_seed(args.seed))
    series = (series - series.mean((0, 1))) / series.std((0, 1))
    train = WindowSampler(series[:, :1700].contiguous(), args.past, args.future)
    val_x, val_y = WindowSampler(series[:, 1700:].contiguous(), args.past, args.future).batch(256)

    q = torch.tensor([0.1, 0.5, 0.9])
    model = Forecaster(args.hidden, args.future, len(q))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)

    start = time.time()
    for step in range(1, args.steps + 1):
        x, y = train.batch(args.batch_size)
        loss = pinball(model(x), y, q)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 30 == 0:
            print(f"step {step:4d}  pinball {loss.item():.4f}  {step / (time.time() - start):.2f} steps/s", flush=True)
        if step % 100 == 0:
            with torch.inference_mode():
                print(f"step {step:4d}  validation {pinball(model(val_x), val_y, q).item():.4f}", flush=True)


if __name__ == "__main__":
    main()
