"""P and S phase picking on three-component seismograms with a 1-D U-Net and a GRU bottleneck."""
import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def synthesise(n, length, seed):
    """Traces with coloured noise, a P onset on the vertical and an S onset on the horizontals."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n, 3, length)).astype(np.float32)
    noise[..., 1:] += 0.7 * noise[..., :-1]
    p = rng.integers(length // 8, length // 2, n)
    s = p + rng.integers(length // 16, length // 3, n)
    t = np.arange(length, dtype=np.float32)

    def arrival(onset, freq, decay):
        dt = np.maximum(t[None] - onset[:, None], 0)
        return np.sin(2 * np.pi * freq[:, None] * dt) * np.exp(-dt / decay) * np.minimum(dt / 8, 1)

    amp = np.exp(rng.normal(1.0, 0.6, n)).astype(np.float32)[:, None]
    pw = arrival(p, rng.uniform(0.04, 0.12, n).astype(np.float32), 120) * amp
    sw = arrival(s, rng.uniform(0.02, 0.06, n).astype(np.float32), 220) * amp * 1.6
    noise[:, 0] += pw + 0.3 * sw
    noise[:, 1] += 0.3 * pw + sw
    noise[:, 2] += 0.2 * pw + 0.8 * sw
    bump = [np.exp(-0.5 * ((t[None] - q[:, None]) / 10) ** 2) for q in (p, s)]
    target = np.stack([*bump, np.clip(1 - bump[0] - bump[1], 0, 1)], 1)
    target /= target.sum(1, keepdims=True)
    return (torch.from_numpy(noise.astype(np.float32)), torch.from_numpy(target.astype(np.float32)),
            torch.from_numpy(np.stack([p, s], 1)))


class Down(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv1d(cin, cout, 7, 4, 3, bias=False), nn.BatchNorm1d(cout), nn.ReLU(inplace=True),
                         nn.Conv1d(cout, cout, 7, 1, 3, bias=False), nn.BatchNorm1d(cout), nn.ReLU(inplace=True))


class Up(nn.Module):
    def __init__(self, cin, skip, cout):
        super().__init__()
        self.up = nn.ConvTranspose1d(cin, cout, 4, 4)
        self.mix = nn.Sequential(nn.Conv1d(cout + skip, cout, 7, 1, 3, bias=False), nn.BatchNorm1d(cout),
                                 nn.ReLU(inplace=True))

    def forward(self, x, skip):
        return self.mix(torch.cat([self.up(x), skip], 1))


class Picker(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(3, w, 7, 1, 3, bias=False), nn.BatchNorm1d(w), nn.ReLU(inplace=True))
        self.d1, self.d2, self.d3 = Down(w, 2 * w), Down(2 * w, 4 * w), Down(4 * w, 6 * w)
        self.gru = nn.GRU(6 * w, 3 * w, batch_first=True, bidirectional=True)
        self.u3, self.u2, self.u1 = Up(6 * w, 4 * w, 4 * w), Up(4 * w, 2 * w, 2 * w), Up(2 * w, w, w)
        self.head = nn.Conv1d(w, 3, 1)

    def forward(self, x):
        a = self.stem(x)
        b = self.d1(a)
        c = self.d2(b)
        d = self.d3(c)
        d = d + self.gru(d.transpose(1, 2))[0].transpose(1, 2)
        return self.head(self.u1(self.u2(self.u3(d, c), b), a))


def normalise(x):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.std((1, 2), keepdim=True) + 1e-6)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.x, self.y, _ = synthesise(args.traces, args.length, args.seed)
        self.vx, _, self.vpick = synthesise(args.held_out, args.length, args.seed + 1)
        self.x, self.vx = normalise(self.x), normalise(self.vx)
        self.model = Picker(args.width)
        self.opt = torch.optim.AdamW(self.model.parameters(), args.lr, weight_decay=1e-2)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, args.lr, total_steps=args.steps, pct_start=0.1)
        self.ema = [p.detach().clone() for p in self.model.parameters()]
        self.gen = torch.Generator().manual_seed(args.seed)
        self.history, self.step, self.best = [], 0, math.inf
        self.out = Path(args.out) if args.out else None
        if self.out:
            self.out.mkdir(parents=True, exist_ok=True)

    def augment(self, x):
        """Random polarity per trace, random swap of the horizontals, gain per component."""
        n = len(x)
        gain = torch.empty(n, 3, 1).uniform_(0.7, 1.4, generator=self.gen)
        sign = torch.randint(0, 2, (n, 1, 1), generator=self.gen) * 2 - 1
        if torch.rand((), generator=self.gen) < 0.5:
            x = x[:, [0, 2, 1]]
        return x * (gain * sign)

    def epochs(self):
        while True:
            yield from torch.randperm(len(self.x), generator=self.gen).split(self.args.batch)

    def train_step(self, idx):
        x, y = self.augment(self.x[idx]), self.y[idx]
        logp = F.log_softmax(self.model(x), 1)
        loss = -(y * logp).sum(1).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.opt.step()
        self.sched.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.ema, list(self.model.parameters()), 0.01)
        return loss.detach(), norm

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        picks = torch.cat([self.model(x)[:, :2].argmax(-1) for x in self.vx.split(self.args.batch)])
        self.model.train()
        err = (picks - self.vpick).abs().float()
        return err.median(0).values.tolist(), (err < 20).float().mean(0).tolist()

    def fit(self):
        args, began, window = self.args, time.time(), []
        for idx in self.epochs():
            loss, norm = self.train_step(idx)
            self.step += 1
            window.append(loss)
            if self.step % args.log_every == 0:
                mean = torch.stack(window).mean().item()
                window.clear()
                print(f"step {self.step:4d}  loss {mean:.5f}  grad {norm.item():.3f}  lr {self.sched.get_last_lr()[0]:.2e}  "
                      f"{self.step / (time.time() - began):.2f} it/s", flush=True)
                self.history.append({"step": self.step, "loss": mean})
            if self.step % args.eval_every == 0 or self.step == args.steps:
                median, hit = self.validate()
                print(f"  held out: P {median[0]:.0f} / S {median[1]:.0f} samples, hits {hit[0]:.2f} / {hit[1]:.2f}", flush=True)
                if self.out and sum(median) < self.best:
                    self.best = sum(median)
                    torch.save({"model": self.model.state_dict(), "ema": self.ema}, self.out / "best.pt")
            if self.step >= args.steps:
                break
        if self.out:
            (self.out / "history.json").write_text(json.dumps(self.history))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--traces", type=int, default=1200)
    p.add_argument("--held-out", type=int, default=64)
    p.add_argument("--length", type=int, default=1536)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--width", type=int, default=12)
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--eval-every", type=int, default=200)
    p.add_argument("--out", default="")
    p.add_argument("--seed", type=int, default=8)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    Trainer(args).fit()


if __name__ == "__main__":
    main()
