"""TD3 for a gantry crane: bring the load above the target quickly and without swing.

64 simulated cranes run side by side (numpy); the agent sees the last four observations, as the real crane's
controller has a delay. An "episode" is one fixed-length run of all the cranes.
"""
import argparse
import copy
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class CraneFleet:
    """Cart position and speed, load angle and angular speed, rope length and target; force on the cart is the action."""
    dt, mass, load, g, limit = 0.08, 4.0, 2.0, 9.81, 20.0

    def __init__(self, n, horizon, stack, rng):
        self.n, self.horizon, self.stack, self.rng = n, horizon, stack, rng
        self.obs_dim, self.act_dim = 6 * stack, 1

    def reset(self):
        self.x = self.rng.uniform(-1, 1, self.n)
        self.v = np.zeros(self.n)
        self.theta = self.rng.normal(0, 0.1, self.n)
        self.omega = np.zeros(self.n)
        self.rope = self.rng.uniform(1.0, 3.0, self.n)
        self.goal = self.rng.uniform(-3, 3, self.n)
        self.t = 0
        self.frames = [self._look()] * self.stack
        return np.concatenate(self.frames, 1)

    def _look(self):
        obs = np.stack([self.goal - self.x, self.v, np.sin(self.theta), self.omega, self.rope, self.x], 1)
        return (obs + self.rng.normal(0, 0.005, obs.shape)).astype(np.float32)

    def step(self, action):
        force = self.limit * action[:, 0]
        s, c = np.sin(self.theta), np.cos(self.theta)
        acc = (force + self.load * s * (self.rope * self.omega ** 2 + self.g * c)) / (self.mass + self.load * s ** 2) - 0.4 * self.v
        alpha = -(acc * c + self.g * s) / self.rope - 0.1 * self.omega
        self.v, self.omega = self.v + self.dt * acc, self.omega + self.dt * alpha
        self.x, self.theta = self.x + self.dt * self.v, self.theta + self.dt * self.omega
        self.t += 1
        tip = self.x + self.rope * np.sin(self.theta) - self.goal
        reward = -np.minimum(np.abs(tip), 4) - 0.2 * np.abs(self.omega) - 0.02 * action[:, 0] ** 2
        self.frames = self.frames[1:] + [self._look()]
        return np.concatenate(self.frames, 1), reward.astype(np.float32), self.t >= self.horizon


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim, rng):
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros((capacity, act_dim), np.float32)
        self.rew = np.zeros(capacity, np.float32)
        self.capacity, self.rng = capacity, rng
        self.head, self.size = 0, 0

    def add(self, obs, act, rew, next_obs):
        idx = (self.head + np.arange(len(obs))) % self.capacity
        self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx] = obs, act, rew, next_obs
        self.head = (self.head + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, n):
        idx = self.rng.integers(0, self.size, n)
        return [torch.from_numpy(a[idx]) for a in (self.obs, self.act, self.rew, self.next_obs)]

    def save(self, path):
        with open(path + ".tmp", "wb") as f:
            np.savez_compressed(f, obs=self.obs[:self.size], act=self.act[:self.size], rew=self.rew[:self.size],
                                next_obs=self.next_obs[:self.size], head=self.head)
        os.replace(path + ".tmp", path)


def mlp(cin, cout, width):
    return nn.Sequential(nn.Linear(cin, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, cout))


class Twin(nn.Module):
    def __init__(self, obs_dim, act_dim, width):
        super().__init__()
        self.q1, self.q2 = mlp(obs_dim + act_dim, 1, width), mlp(obs_dim + act_dim, 1, width)

    def forward(self, obs, act):
        z = torch.cat([obs, act], 1)
        return self.q1(z).squeeze(1), self.q2(z).squeeze(1)


class TD3:
    def __init__(self, obs_dim, act_dim, args):
        self.args = args
        self.actor = nn.Sequential(mlp(obs_dim, act_dim, args.width), nn.Tanh())
        self.critic = Twin(obs_dim, act_dim, args.width)
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=args.lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=args.lr)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, noise, rng):
        a = self.actor(torch.from_numpy(obs)).numpy()
        return np.clip(a + rng.normal(0, noise, a.shape), -1, 1).astype(np.float32)

    def update(self, batch):
        obs, act, rew, next_obs = batch
        with torch.no_grad():
            smooth = (torch.randn_like(act) * 0.2).clamp_(-0.4, 0.4)
            next_act = (self.actor_target(next_obs) + smooth).clamp_(-1, 1)
            goal = rew + self.args.gamma * torch.min(*self.critic_target(next_obs, next_act))
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        self.updates += 1
        if self.updates % 2 == 0:
            self.critic.requires_grad_(False)
            actor_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.critic.requires_grad_(True)
            with torch.no_grad():
                for net, target in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
                    torch._foreach_lerp_(list(target.parameters()), list(net.parameters()), self.args.tau)
        return critic_loss.detach()

    def save(self, path):
        torch.save({"actor": self.actor.state_dict(), "critic": self.critic.state_dict(), "updates": self.updates}, path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--episodes", type=int, default=50)
    p.add_argument("--horizon", type=int, default=30)
    p.add_argument("--cranes", type=int, default=64)
    p.add_argument("--stack", type=int, default=4)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--tau", type=float, default=0.01)
    p.add_argument("--random_episodes", type=int, default=60)
    p.add_argument("--out", default="crane_run")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rng = np.random.default_rng(3)
    torch.manual_seed(3)
    env = CraneFleet(args.cranes, args.horizon, args.stack, rng)
    agent = TD3(env.obs_dim, env.act_dim, args)
    buffer = ReplayBuffer(220_000, env.obs_dim, env.act_dim, rng)

    for episode in range(-args.random_episodes, args.episodes):
        obs, done, total, losses, start = env.reset(), False, 0.0, [], time.time()
        while not done:
            if episode < 0:
                act = rng.uniform(-1, 1, (args.cranes, 1)).astype(np.float32)
            else:
                act = agent.act(obs, 0.15, rng)
            next_obs, rew, done = env.step(act)
            buffer.add(obs, act, rew, next_obs)
            obs, total = next_obs, total + rew.mean()
            if episode >= 0:
                losses.append(agent.update(buffer.sample(args.batch)))
        if episode >= 0:
            print(f"episode {episode:3d}  return {total:8.2f}  critic loss {torch.stack(losses).mean():.4f}  "
                  f"replay {buffer.size}  {time.time() - start:.1f} s", flush=True)
            agent.save(f"{args.out}/agent.pt")
    buffer.save(f"{args.out}/replay.npz")


if __name__ == "__main__":
    main()
