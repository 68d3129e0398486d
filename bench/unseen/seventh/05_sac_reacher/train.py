"""Soft actor-critic on a vectorised point-robot reaching task (numpy environment)."""
import argparse
import copy
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT = 18, 4


class ReachEnv:
    """n robots at once: two jointed points that have to be brought onto two moving targets."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.state = rng.normal(0, 1, (n, OBS)).astype(np.float32)
        self.t = np.zeros(n, dtype=int)

    def step(self, action):
        s = self.state
        s[:, 4:8] = 0.9 * s[:, 4:8] + 0.2 * action                       # speeds
        s[:, 0:4] += 0.1 * s[:, 4:8]                                     # places
        s[:, 8:12] += 0.02 * self.rng.normal(0, 1, (self.n, 4))          # targets
        s[:, 12:16] = s[:, 8:12] - s[:, 0:4]
        reward = -np.linalg.norm(s[:, 12:16], axis=1) - 0.05 * (action ** 2).sum(1)
        self.t += 1
        done = self.t >= 100
        next_obs = s.copy()
        if done.any():
            s[done] = self.rng.normal(0, 1, (done.sum(), OBS))
            self.t[done] = 0
        return next_obs, reward.astype(np.float32)


class Replay:
    def __init__(self, capacity):
        self.data = {"obs": np.zeros((capacity, OBS), np.float32), "act": np.zeros((capacity, ACT), np.float32),
                     "rew": np.zeros(capacity, np.float32), "next": np.zeros((capacity, OBS), np.float32)}
        self.capacity, self.size, self.head = capacity, 0, 0

    def add(self, **rows):
        n = len(rows["rew"])
        at = (self.head + np.arange(n)) % self.capacity
        for key, value in rows.items():
            self.data[key][at] = value
        self.head = (self.head + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, n, rng):
        at = rng.integers(0, self.size, n)
        return [torch.from_numpy(v[at]) for v in self.data.values()]


def mlp(cin, cout, hidden):
    return nn.Sequential(nn.Linear(cin, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, cout))


class Agent:
    def __init__(self, hidden, lr):
        self.actor = mlp(OBS, 2 * ACT, hidden)
        self.q1, self.q2 = mlp(OBS + ACT, 1, hidden), mlp(OBS + ACT, 1, hidden)
        self.t1, self.t2 = (copy.deepcopy(q).requires_grad_(False) for q in (self.q1, self.q2))
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.q_params = [*self.q1.parameters(), *self.q2.parameters()]
        self.t_params = [*self.t1.parameters(), *self.t2.parameters()]
        self.opt_q = torch.optim.Adam(self.q_params, lr, fused=True)
        self.opt_pi = torch.optim.Adam(self.actor.parameters(), lr, fused=True)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], lr, fused=True)

    def act(self, obs):
        mean, log_std = self.actor(obs).chunk(2, -1)
        std = log_std.clamp(-5, 1).exp()
        raw = mean + std * torch.randn_like(mean)
        logp = (-0.5 * ((raw - mean) / std) ** 2 - std.log() - 0.919).sum(-1)
        logp = logp - (2 * (0.6931 - raw - F.softplus(-2 * raw))).sum(-1)
        return torch.tanh(raw), logp

    def update(self, obs, act, rew, nxt, gamma=0.98, tau=0.005):
        with torch.no_grad():
            na, nlogp = self.act(nxt)
            x = torch.cat([nxt, na], -1)
            target = torch.min(self.t1(x), self.t2(x)).squeeze(-1) - self.log_alpha.exp() * nlogp
            target = rew + gamma * target
        x = torch.cat([obs, act], -1)
        loss_q = F.mse_loss(self.q1(x).squeeze(-1), target) + F.mse_loss(self.q2(x).squeeze(-1), target)
        self.opt_q.zero_grad()
        loss_q.backward()
        self.opt_q.step()

        a, logp = self.act(obs)
        for p in self.q_params:
            p.requires_grad_(False)
        x = torch.cat([obs, a], -1)
        loss_pi = (self.log_alpha.exp().detach() * logp - torch.min(self.q1(x), self.q2(x)).squeeze(-1)).mean()
        self.opt_pi.zero_grad()
        loss_pi.backward()
        self.opt_pi.step()
        for p in self.q_params:
            p.requires_grad_(True)

        loss_alpha = -self.log_alpha * (logp.detach().mean() - ACT)
        self.opt_alpha.zero_grad()
        loss_alpha.backward()
        self.opt_alpha.step()
        torch._foreach_lerp_(self.t_params, self.q_params, tau)
        return loss_q.detach()


def save_run(agent, replay, step, folder):
    """Everything that a restart needs."""
    torch.save({"step": step, "log_alpha": agent.log_alpha, "actor": agent.actor.state_dict(),
                "q1": agent.q1.state_dict(), "q2": agent.q2.state_dict(), "opt_q": agent.opt_q.state_dict(),
                "opt_pi": agent.opt_pi.state_dict()}, os.path.join(folder, "agent.pt"))
    np.savez_compressed(os.path.join(folder, "replay.npz"), size=replay.size, head=replay.head, **replay.data)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=2400)
    p.add_argument("--envs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--hidden", type=int, default=160)
    p.add_argument("--capacity", type=int, default=60000)
    p.add_argument("--warmup", type=int, default=5000, help="random steps before training")
    p.add_argument("--save-every", type=int, default=50)
    p.add_argument("--lr", type=float, default=5e-4)
    args = p.parse_args()

    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    env, replay, agent = ReachEnv(args.envs, rng), Replay(args.capacity), Agent(args.hidden, args.lr)
    folder = tempfile.mkdtemp(prefix="sac_")
    for _ in range(args.warmup):
        obs, act = env.state.copy(), rng.uniform(-1, 1, (args.envs, ACT)).astype(np.float32)
        nxt, rew = env.step(act)
        replay.add(obs=obs, act=act, rew=rew, next=nxt)

    start, returns = time.time(), []
    for step in range(1, args.steps + 1):
        obs = env.state.copy()
        with torch.no_grad():
            act = agent.act(torch.from_numpy(obs))[0].numpy()
        nxt, rew = env.step(act)
        replay.add(obs=obs, act=act, rew=rew, next=nxt)
        returns.append(rew.mean())
        loss_q = agent.update(*replay.sample(args.batch_size, rng))
        if step % args.save_every == 0:
            save_run(agent, replay, step, folder)
        if step % 200 == 0:
            print(f"step {step:5d}  reward {np.mean(returns[-200:]):.3f}  q-loss {loss_q.item():.4f}  "
                  f"alpha {agent.log_alpha.exp().item():.3f}  {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
