"""Soft actor-critic on a vectorised two-link pendulum, written in numpy.

    python train.py --steps 1500
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pendulum:
    """Swing-up of a batch of damped pendulums; the action is a torque in [-1, 1]."""

    obs_dim = 8
    act_dim = 2

    def __init__(self, num_envs, seed, horizon=200):
        self.rng = np.random.default_rng(seed)
        self.num_envs = num_envs
        self.horizon = horizon
        self.theta = np.zeros((num_envs, 2))
        self.omega = np.zeros((num_envs, 2))
        self.t = np.zeros(num_envs, dtype=np.int64)
        self.reset(np.ones(num_envs, dtype=bool))

    def reset(self, mask):
        n = int(mask.sum())
        self.theta[mask] = self.rng.uniform(-np.pi, np.pi, (n, 2))
        self.omega[mask] = self.rng.uniform(-1, 1, (n, 2))
        self.t[mask] = self.rng.integers(0, self.horizon // 2, n)
        return self.observe()

    def observe(self):
        return np.concatenate(
            [np.cos(self.theta), np.sin(self.theta), self.omega / 8.0,
             np.cos(self.theta[:, :1] - self.theta[:, 1:]),
             np.sin(self.theta[:, :1] - self.theta[:, 1:])], axis=1).astype(np.float32)

    def step(self, action):
        torque = 2.0 * np.clip(action, -1, 1)
        for _ in range(2):
            coupling = 0.5 * np.sin(self.theta[:, ::-1] - self.theta)
            acc = 7.5 * np.sin(self.theta) + 3.0 * torque + coupling - 0.05 * self.omega
            self.omega = np.clip(self.omega + 0.025 * acc, -8, 8)
            self.theta = (self.theta + 0.025 * self.omega + np.pi) % (2 * np.pi) - np.pi
        cost = (self.theta ** 2 + 0.1 * self.omega ** 2 + 0.001 * torque ** 2).sum(1)
        self.t += 1
        done = self.t >= self.horizon
        return self.observe(), (-cost / 10).astype(np.float32), done


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim):
        self.capacity, self.size, self.head = capacity, 0, 0
        self.obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.act = np.zeros((capacity, act_dim), dtype=np.float32)
        self.rew = np.zeros(capacity, dtype=np.float32)
        self.nxt = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.done = np.zeros(capacity, dtype=np.float32)

    def __len__(self):
        return self.size

    def add(self, obs, act, rew, nxt, done):
        at = (self.head + np.arange(len(obs))) % self.capacity
        self.obs[at], self.act[at], self.rew[at] = obs, act, rew
        self.nxt[at], self.done[at] = nxt, done
        self.head = (self.head + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, batch_size):
        at = np.random.randint(0, self.size, batch_size)
        return tuple(torch.from_numpy(x[at]) for x in (self.obs, self.act, self.rew, self.nxt, self.done))


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.net = mlp(obs_dim, hidden, 2 * act_dim)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, -1)
        std = log_std.clamp(-5, 1).exp()
        raw = mean + std * torch.randn_like(std)
        logp = (-0.5 * ((raw - mean) / std) ** 2 - std.log() - 0.919).sum(-1)
        act = torch.tanh(raw)
        logp = logp - torch.log(1 - act ** 2 + 1e-6).sum(-1)
        return act, logp, torch.tanh(mean)


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.q1 = mlp(obs_dim + act_dim, hidden, 1)
        self.q2 = mlp(obs_dim + act_dim, hidden, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def evaluate(actor, seed, num_envs=16, length=100):
    env = Pendulum(num_envs, seed)
    obs, total = env.observe(), 0.0
    for _ in range(length):
        _, _, mean = actor(torch.from_numpy(obs))
        obs, rew, _ = env.step(mean.numpy())
        total += float(rew.mean())
    return total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--num-envs", type=int, default=16)
    p.add_argument("--capacity", type=int, default=200_000)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--tau", type=float, default=0.005)
    p.add_argument("--alpha", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--log-every", type=int, default=100)
    p.add_argument("--eval-every", type=int, default=500)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    torch.set_num_threads(2)

    env = Pendulum(args.num_envs, args.seed)
    actor = Actor(env.obs_dim, env.act_dim, args.hidden)
    critic = Critic(env.obs_dim, env.act_dim, args.hidden)
    target = Critic(env.obs_dim, env.act_dim, args.hidden)
    target.load_state_dict(critic.state_dict())
    target.requires_grad_(False)
    opt_a = torch.optim.Adam(actor.parameters(), lr=args.lr)
    opt_c = torch.optim.Adam(critic.parameters(), lr=args.lr)
    buffer = ReplayBuffer(args.capacity, env.obs_dim, env.act_dim)

    # offline demonstrations of a random policy fill the buffer first
    rng = np.random.default_rng(args.seed + 1)
    obs = env.observe()
    for _ in range(args.capacity // args.num_envs):
        act = rng.uniform(-1, 1, (args.num_envs, env.act_dim)).astype(np.float32)
        nxt, rew, done = env.step(act)
        buffer.add(obs, act, rew, nxt, done)
        obs = env.reset(done) if done.any() else nxt

    started = time.time()
    q_losses = []
    for step in range(1, args.steps + 1):
        with torch.no_grad():
            act = actor(torch.from_numpy(obs))[0].numpy()
        nxt, rew, done = env.step(act)
        buffer.add(obs, act, rew, nxt, done)
        obs = env.reset(done) if done.any() else nxt

        b_obs, b_act, b_rew, b_nxt, b_done = buffer.sample(args.batch_size)
        with torch.no_grad():
            n_act, n_logp, _ = actor(b_nxt)
            q1, q2 = target(b_nxt, n_act)
            backup = b_rew + args.gamma * (1 - b_done) * (torch.min(q1, q2) - args.alpha * n_logp)
        q1, q2 = critic(b_obs, b_act)
        q_loss = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        opt_c.zero_grad(set_to_none=True)
        q_loss.backward()
        opt_c.step()

        new_act, logp, _ = actor(b_obs)
        critic.requires_grad_(False)
        pi_loss = (args.alpha * logp - torch.min(*critic(b_obs, new_act))).mean()
        opt_a.zero_grad(set_to_none=True)
        pi_loss.backward()
        opt_a.step()
        critic.requires_grad_(True)

        with torch.no_grad():
            torch._foreach_lerp_(list(target.parameters()), list(critic.parameters()), args.tau)
        q_losses.append(q_loss.detach())
        if step % args.log_every == 0:
            print(json.dumps({"step": step, "q_loss": round(torch.stack(q_losses).mean().item(), 4),
                              "pi_loss": round(pi_loss.item(), 4),
                              "sps": round(step / (time.time() - started), 1)}), flush=True)
            q_losses.clear()
        if step % args.eval_every == 0:
            print(json.dumps({"step": step, "return": round(evaluate(actor, 999), 2)}), flush=True)


if __name__ == "__main__":
    main()
