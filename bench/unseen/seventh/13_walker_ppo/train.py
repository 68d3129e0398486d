"""PPO on a small planar rover that has to reach a beacon between obstacles (own environment)."""
import argparse
import math
import random
import time
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal

Transition = namedtuple("Transition", "obs action logp value reward done")

N_RAYS = 40
OBS_DIM = N_RAYS + 8


class RoverEnv:
    """Unicycle rover with a fan of range sensors; continuous throttle and steering."""

    def __init__(self, seed, n_obstacles=6, limit=200):
        self.rng = np.random.default_rng(seed)
        self.n_obstacles, self.limit = n_obstacles, limit
        self.ray_angles = np.linspace(-math.pi, math.pi, N_RAYS, endpoint=False)

    def reset(self):
        self.pos = self.rng.uniform(-4, 4, 2)
        self.heading = self.rng.uniform(-math.pi, math.pi)
        self.speed, self.turn, self.t = 0.0, 0.0, 0
        self.goal = self.rng.uniform(-4, 4, 2)
        self.obstacles = self.rng.uniform(-4, 4, (self.n_obstacles, 2))
        self.last_dist = float(np.hypot(*(self.goal - self.pos)))
        return self.observe()

    def observe(self):
        angles = self.ray_angles + self.heading
        d = np.stack([np.cos(angles), np.sin(angles)], 1)
        rel = self.obstacles - self.pos
        along = d @ rel.T
        off2 = (rel ** 2).sum(1) - along ** 2
        hit = (along > 0) & (off2 < 0.16)
        ranges = np.where(hit, along, 5.0).min(1)
        dx, dy = self.goal - self.pos
        bearing = math.atan2(dy, dx) - self.heading
        extra = [self.speed, self.turn, math.cos(bearing), math.sin(bearing), self.last_dist / 5,
                 self.pos[0] / 5, self.pos[1] / 5, self.t / self.limit]
        return np.concatenate([ranges / 5.0, extra]).astype(np.float32)

    def step(self, action):
        throttle, steer = np.clip(action, -1, 1)
        self.speed = 0.9 * self.speed + 0.1 * float(throttle)
        self.turn = 0.8 * self.turn + 0.2 * float(steer)
        self.heading += 0.3 * self.turn
        self.pos = np.clip(self.pos + 0.25 * self.speed * np.array(
            [math.cos(self.heading), math.sin(self.heading)]), -5, 5)
        self.t += 1
        dist = float(np.hypot(*(self.goal - self.pos)))
        reward = 2.0 * (self.last_dist - dist) - 0.01
        self.last_dist = dist
        crashed = bool((((self.obstacles - self.pos) ** 2).sum(1) < 0.09).any())
        arrived = dist < 0.4
        reward += 5.0 * arrived - 1.0 * crashed
        return self.observe(), reward, arrived or crashed or self.t >= self.limit


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, width):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                   nn.Linear(width, act_dim))
        self.critic = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                    nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def dist(self, obs):
        return Normal(self.actor(obs), self.log_std.exp(), validate_args=False)

    @torch.no_grad()
    def act(self, obs):
        dist = self.dist(obs)
        action = dist.sample()
        return action, dist.log_prob(action).sum(-1), self.critic(obs).squeeze(-1)


class Runner:
    def __init__(self, envs):
        self.envs = envs
        self.obs = [env.reset() for env in envs]
        self.returns, self.running = [], [0.0] * len(envs)

    def collect(self, policy, horizon):
        trajectories = [[] for _ in self.envs]
        for _ in range(horizon):
            for k, env in enumerate(self.envs):
                obs = self.obs[k]
                action, logp, value = policy.act(torch.from_numpy(obs))
                action = action.numpy()
                next_obs, reward, done = env.step(action)
                trajectories[k].append(Transition(obs, action, logp.item(), value.item(), reward, done))
                self.running[k] += reward
                if done:
                    self.returns.append(self.running[k])
                    self.running[k] = 0.0
                    next_obs = env.reset()
                self.obs[k] = next_obs
        _, _, last = policy.act(torch.from_numpy(np.stack(self.obs)))
        return trajectories, last.tolist()


def gae(trajectory, last_value, gamma=0.99, lam=0.95):
    out, running, next_value = [], 0.0, last_value
    for tr in reversed(trajectory):
        alive = 1.0 - tr.done
        delta = tr.reward + gamma * next_value * alive - tr.value
        running = delta + gamma * lam * alive * running
        out.append(running)
        next_value = tr.value
    return out[::-1]


def ppo_update(policy, opt, trajectories, last_values, args):
    steps = [tr for tj in trajectories for tr in tj]
    advs = [a for tj, v in zip(trajectories, last_values) for a in gae(tj, v)]
    targets = [a + tr.value for a, tr in zip(advs, steps)]
    mean, std = float(np.mean(advs)), float(np.std(advs)) + 1e-8
    index = list(range(len(steps)))
    for _ in range(args.ppo_epochs):
        random.shuffle(index)
        for lo in range(0, len(index), args.minibatch):
            mb = index[lo:lo + args.minibatch]
            obs = torch.tensor([steps[i].obs.tolist() for i in mb])
            actions = torch.tensor([steps[i].action.tolist() for i in mb])
            old_logp = torch.tensor([steps[i].logp for i in mb])
            adv = torch.tensor([(advs[i] - mean) / std for i in mb])
            target = torch.tensor([targets[i] for i in mb])

            dist = policy.dist(obs)
            logp = dist.log_prob(actions).sum(-1)
            ratio = (logp - old_logp).exp()
            pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            vf = (policy.critic(obs).squeeze(-1) - target).pow(2).mean()
            loss = pg + 0.5 * vf - args.entropy * dist.entropy().sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=32)
    ap.add_argument("--envs", type=int, default=16)
    ap.add_argument("--horizon", type=int, default=128)
    ap.add_argument("--ppo-epochs", type=int, default=10)
    ap.add_argument("--minibatch", type=int, default=256)
    ap.add_argument("--width", type=int, default=128)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--entropy", type=float, default=0.002)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    runner = Runner([RoverEnv(args.seed * 1000 + k) for k in range(args.envs)])
    policy = ActorCritic(OBS_DIM, 2, args.width)
    opt = torch.optim.Adam(policy.parameters(), lr=args.lr, eps=1e-5, fused=True)
    began = time.time()
    for it in range(args.iterations):
        trajectories, last_values = runner.collect(policy, args.horizon)
        loss = ppo_update(policy, opt, trajectories, last_values, args)
        recent = runner.returns[-50:]
        print(f"iteration {it:3d}  return {np.mean(recent) if recent else float('nan'):7.3f}  "
              f"loss {loss:.4f}  {time.time() - began:.1f}s", flush=True)
    torch.save(policy.state_dict(), "/tmp/rover_ppo.pt")


if __name__ == "__main__":
    main()
