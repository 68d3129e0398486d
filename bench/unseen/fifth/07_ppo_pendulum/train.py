"""PPO on a batch of pendulums."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal


class Pendulums:
    """Many independent swing-up pendulums advanced together."""

    def __init__(self, n, horizon=200, seed=0):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)
        self.theta = np.zeros(n)
        self.omega = np.zeros(n)
        self.age = self.rng.integers(0, horizon, n)
        self._reset(np.ones(n, dtype=bool))

    def _reset(self, mask):
        k = int(mask.sum())
        self.theta[mask] = self.rng.uniform(-np.pi, np.pi, k)
        self.omega[mask] = self.rng.uniform(-1, 1, k)

    def observe(self):
        return np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 8], 1).astype(np.float32)

    def step(self, action):
        u = np.clip(action, -1, 1) * 2.0
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        cost = angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * u ** 2
        self.omega = np.clip(self.omega + (15.0 * np.sin(self.theta) + 3.0 * u) * 0.05, -8, 8)
        self.theta = self.theta + self.omega * 0.05
        self.age += 1
        done = self.age >= self.horizon
        if done.any():
            self.age[done] = 0
            self._reset(done)
        return self.observe(), (-cost / 8).astype(np.float32), done


class ActorCritic(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                nn.Linear(hidden, 1))
        self.v = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                               nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def dist(self, obs):
        return Normal(self.pi(obs).squeeze(-1), self.log_std.exp(), validate_args=False)


@torch.no_grad()
def rollout(env, net, obs, steps):
    buf = {k: torch.empty(steps, env.n) for k in ("logp", "act", "rew", "done", "val")}
    buf["obs"] = torch.empty(steps, env.n, 3)
    for t in range(steps):
        d = net.dist(obs)
        act = d.sample()
        buf["obs"][t], buf["act"][t], buf["logp"][t] = obs, act, d.log_prob(act)
        nxt, rew, done = env.step(act.numpy())
        buf["rew"][t], buf["done"][t] = torch.from_numpy(rew), torch.from_numpy(done)
        obs = torch.from_numpy(nxt)
    buf["val"] = net.v(buf["obs"]).squeeze(-1)
    last = net.v(obs).squeeze(-1)
    return obs, buf, last


def gae(buf, last, gamma=0.97, lam=0.95):
    adv = torch.zeros_like(buf["rew"])
    run = torch.zeros_like(last)
    for t in reversed(range(len(adv))):
        live = 1 - buf["done"][t]
        delta = buf["rew"][t] + gamma * last * live - buf["val"][t]
        run = delta + gamma * lam * live * run
        adv[t], last = run, buf["val"][t]
    return adv


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--envs", type=int, default=256)
    ap.add_argument("--steps", type=int, default=48)
    ap.add_argument("--iterations", type=int, default=45)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--minibatch", type=int, default=1536)
    ap.add_argument("--clip", type=float, default=0.2)
    a = ap.parse_args()
    torch.manual_seed(2)
    env, net = Pendulums(a.envs), ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=7e-4)
    obs = torch.from_numpy(env.observe())
    t0 = time.time()
    for it in range(a.iterations):
        obs, buf, last = rollout(env, net, obs, a.steps)
        adv = gae(buf, last)
        ret = (adv + buf["val"]).flatten()
        flat = {k: buf[k].flatten(0, 1) for k in ("obs", "act", "logp")}
        adv = ((adv - adv.mean()) / (adv.std() + 1e-8)).flatten()
        for _ in range(a.epochs):
            for idx in torch.randperm(len(adv)).split(a.minibatch):
                d = net.dist(flat["obs"][idx])
                ratio = (d.log_prob(flat["act"][idx]) - flat["logp"][idx]).exp()
                surr = torch.min(ratio * adv[idx], ratio.clamp(1 - a.clip, 1 + a.clip) * adv[idx])
                v_loss = (net.v(flat["obs"][idx]).squeeze(-1) - ret[idx]).square().mean()
                loss = -surr.mean() + 0.5 * v_loss - 0.003 * d.entropy().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()
        if it % 4 == 3:
            frames = (it + 1) * a.envs * a.steps
            print(f"iter {it + 1:3d} reward {buf['rew'].mean().item():.3f} value loss {v_loss.item():.3f} "
                  f"std {net.log_std.exp().item():.2f} {frames / (time.time() - t0):.0f} fps", flush=True)


if __name__ == "__main__":
    main()
