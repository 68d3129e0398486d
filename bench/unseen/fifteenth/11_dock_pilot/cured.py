"""Advantage actor-critic for docking a swarm of small surface vehicles in cross current."""
import argparse
import json
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

THRUST = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [.7, .7], [-.7, .7], [.7, -.7], [-.7, -.7]], dtype=np.float32)


class DockingVecEnv:
    """n vehicles, each with its own berth, current and two buoys to keep clear of."""

    def __init__(self, n, max_steps=120, seed=0):
        self.n, self.max_steps = n, max_steps
        self.rng = np.random.default_rng(seed)
        self.pos = np.zeros((n, 2), np.float32)
        self.vel = np.zeros((n, 2), np.float32)
        self.berth = np.zeros((n, 2), np.float32)
        self.current = np.zeros((n, 2), np.float32)
        self.buoys = np.zeros((n, 2, 2), np.float32)
        self.t = np.zeros(n, np.int64)
        self.obs_dim, self.n_actions = 13, len(THRUST)

    def _spawn(self, idx):
        k = len(idx)
        if k == 0:
            return
        self.pos[idx] = self.rng.uniform(-1, 1, (k, 2))
        self.vel[idx] = 0.0
        self.berth[idx] = self.rng.uniform(-0.8, 0.8, (k, 2))
        self.current[idx] = self.rng.normal(0, 0.15, (k, 2))
        self.buoys[idx] = self.rng.uniform(-1, 1, (k, 2, 2))
        self.t[idx] = 0

    def _observe(self):
        rel = self.berth - self.pos
        dist = np.linalg.norm(rel, axis=1, keepdims=True)
        buoys = (self.buoys - self.pos[:, None]).reshape(self.n, 4)
        clock = (self.t / self.max_steps)[:, None].astype(np.float32)
        return np.concatenate([self.pos, self.vel, rel, buoys, dist, self.current.sum(1, keepdims=True), clock], axis=1)

    def reset(self):
        self._spawn(np.arange(self.n))
        return self._observe()

    def step(self, action):
        before = np.linalg.norm(self.berth - self.pos, axis=1)
        push = THRUST[action]
        self.vel = 0.9 * self.vel + 0.06 * push + 0.02 * self.current
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5).astype(np.float32)
        self.vel = self.vel.astype(np.float32)
        self.t += 1
        after = np.linalg.norm(self.berth - self.pos, axis=1)
        clear = np.linalg.norm(self.buoys - self.pos[:, None], axis=2).min(1)
        docked = (after < 0.12) & (np.linalg.norm(self.vel, axis=1) < 0.15)
        fuel = np.abs(push).sum(1)
        reward = (before - after) * 4 - 0.004 * fuel - 0.1 * (clear < 0.08) + 2.0 * docked
        done = docked | (self.t >= self.max_steps)
        self._spawn(np.flatnonzero(done))
        return self._observe(), reward.astype(np.float32), done, fuel.astype(np.float32), docked


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, n_actions)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class VoyageLog:
    """Keeps the totals of the voyages under way and a window over those that ended."""

    def __init__(self, n, window=400):
        self.reward = torch.zeros(n, dtype=torch.float64)
        self.fuel = torch.zeros(n, dtype=torch.float64)
        self.length = torch.zeros(n, dtype=torch.float64)
        self.closed = deque(maxlen=window)
        self.total = 0

    def add(self, reward, fuel, done, docked):
        self.reward += reward
        self.fuel += fuel
        self.length += 1
        ended = done.nonzero().squeeze(1)
        if len(ended):
            rows = torch.stack([self.reward[ended], self.fuel[ended], self.length[ended], docked[ended].double()], dim=1)
            self.closed.extend(rows.tolist())
            for total in (self.reward, self.fuel, self.length):
                total[ended] = 0.0
            self.total += len(ended)

    def summary(self):
        if not self.closed:
            return {}
        r, f, n, d = np.array(self.closed).mean(0)
        return {"reward": round(r, 3), "fuel": round(f, 2), "length": round(n, 1), "docked": round(d, 3), "voyages": self.total}


class Rollout:
    def __init__(self, steps, n, obs_dim):
        self.obs = torch.zeros(steps, n, obs_dim)
        self.action = torch.zeros(steps, n, dtype=torch.long)
        self.reward = torch.zeros(steps, n)
        self.done = torch.zeros(steps, n)
        self.value = torch.zeros(steps, n)
        self.steps = steps

    def advantages(self, last_value, gamma, lam):
        adv = torch.zeros_like(self.reward)
        running = torch.zeros_like(last_value)
        nxt = last_value
        for t in reversed(range(self.steps)):
            alive = 1.0 - self.done[t]
            delta = self.reward[t] + gamma * nxt * alive - self.value[t]
            running = delta + gamma * lam * alive * running
            adv[t] = running
            nxt = self.value[t]
        return adv, adv + self.value


@torch.no_grad()
def collect(env, policy, obs, rollout, log):
    for t in range(rollout.steps):
        obs_t = torch.from_numpy(obs)
        logits, value = policy(obs_t)
        action = Categorical(logits=logits, validate_args=False).sample()
        obs, reward, done, fuel, docked = env.step(action.numpy())
        rollout.obs[t] = obs_t
        rollout.action[t] = action
        rollout.value[t] = value
        rollout.reward[t] = torch.from_numpy(reward)
        rollout.done[t] = torch.from_numpy(done)
        log.add(rollout.reward[t], torch.from_numpy(fuel), torch.from_numpy(done), torch.from_numpy(docked))
    _, last_value = policy(torch.from_numpy(obs))
    return obs, last_value


def update(policy, optimizer, rollout, adv, ret, args):
    obs = rollout.obs.flatten(0, 1)
    action = rollout.action.flatten()
    adv, ret = adv.flatten(), ret.flatten()
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    losses = []
    for idx in torch.randperm(len(obs)).chunk(args.minibatches):
        logits, value = policy(obs[idx])
        logp = F.log_softmax(logits, dim=-1)
        chosen = logp.gather(1, action[idx, None]).squeeze(1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * adv[idx]).mean() + 0.5 * F.mse_loss(value, ret[idx]) - args.entropy * entropy
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


@torch.no_grad()
def evaluate(policy, seed, n=256):
    env = DockingVecEnv(n, seed=seed)
    obs = env.reset()
    won = np.zeros(n, bool)
    for _ in range(env.max_steps):
        logits, _ = policy(torch.from_numpy(obs))
        obs, _, _, _, docked = env.step(logits.argmax(-1).numpy())
        won |= docked
    return float(won.mean())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iterations", type=int, default=300)
    p.add_argument("--envs", type=int, default=512)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--minibatches", type=int, default=4)
    p.add_argument("--lr", type=float, default=7e-4)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--entropy", type=float, default=0.01)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "dock_pilot")
    args = p.parse_args()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    env = DockingVecEnv(args.envs, seed=args.seed)
    policy = ActorCritic(env.obs_dim, env.n_actions)
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr, eps=1e-5)
    log = VoyageLog(args.envs)
    rollout = Rollout(args.horizon, args.envs, env.obs_dim)
    obs = env.reset()
    started = time.time()
    for it in range(1, args.iterations + 1):
        obs, last_value = collect(env, policy, obs, rollout, log)
        adv, ret = rollout.advantages(last_value, args.gamma, args.lam)
        loss = update(policy, optimizer, rollout, adv, ret, args)
        if it % 20 == 0:
            print(json.dumps({"it": it, "loss": round(loss.item(), 4), **log.summary(), "s": round(time.time() - started, 1)}), flush=True)
        if it % 100 == 0 or it == args.iterations:
            torch.save(policy.state_dict(), args.out / "policy.pt")
            print(f"it {it} greedy docking rate {evaluate(policy, seed=1000):.3f}", flush=True)


if __name__ == "__main__":
    main()
