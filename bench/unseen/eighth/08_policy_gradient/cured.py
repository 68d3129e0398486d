"""REINFORCE with a value baseline on a vectorised point-reaching task.

An agent on a plane is pushed by a drifting wind and should stay near its goal.
"""
import argparse
import random
import time
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class WindyPlane:
    """`n` independent worlds stepped together; five actions: stay, left, right, up, down."""

    MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, 1], [0, -1]], dtype=np.float32) * 0.1

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.n, 2)).astype(np.float32)
        self.goal = self.rng.uniform(-1, 1, (self.n, 2)).astype(np.float32)
        self.wind = np.zeros((self.n, 2), np.float32)
        return self.observe()

    def observe(self):
        return np.concatenate([self.pos, self.goal, self.wind, self.goal - self.pos], axis=1)

    def step(self, actions):
        noise = self.rng.normal(0, 0.01, (self.n, 2)).astype(np.float32)
        self.wind = 0.95 * self.wind + noise
        self.pos = np.clip(self.pos + self.MOVES[actions] + self.wind, -2, 2)
        reward = -np.linalg.norm(self.goal - self.pos, axis=1)
        return self.observe(), reward.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, obs=8, hidden=256, actions=5):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return self.pi(h), self.v(h).squeeze(-1)


def rollout(env, model, horizon):
    obs = torch.from_numpy(env.reset())
    observations, actions, rewards = [], [], []
    with torch.no_grad():
        for _ in range(horizon):
            logits, _ = model(obs)
            action = Categorical(logits=logits).sample()
            observations.append(obs)
            actions.append(action)
            nxt, reward = env.step(action.numpy())
            rewards.append(reward)
            obs = torch.from_numpy(nxt)
    return torch.stack(observations), torch.stack(actions), np.stack(rewards)


def discounted_returns(rewards, gamma):
    """G_t = r_t + gamma r_{t+1} + gamma^2 r_{t+2} + ... for every t and world."""
    horizon = len(rewards)
    returns = np.zeros_like(rewards)
    running = np.zeros_like(rewards[0])
    for t in reversed(range(horizon)):
        running = rewards[t] + gamma * running
        returns[t] = running
    return torch.from_numpy(returns)


def update(model, optimizer, obs, actions, returns, entropy_weight):
    logits, values = model(obs.flatten(0, 1))
    dist = Categorical(logits=logits)
    target = returns.flatten()
    target = (target - target.mean()) / (target.std() + 1e-6)
    advantage = target - values.detach()
    policy_loss = -(dist.log_prob(actions.flatten()) * advantage).mean()
    value_loss = (values - target).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - entropy_weight * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def evaluate(model, seed, horizon):
    env = WindyPlane(64, seed)
    obs, total = torch.from_numpy(env.reset()), 0.0
    for _ in range(horizon):
        obs, reward = env.step(model(obs)[0].argmax(-1).numpy())
        obs, total = torch.from_numpy(obs), total + reward.mean()
    return total / horizon


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=80)
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--horizon", type=int, default=256)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=7e-4)
    parser.add_argument("--entropy", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = WindyPlane(args.worlds, args.seed)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    recent = deque(maxlen=10)
    started = time.time()
    for i in range(1, args.updates + 1):
        obs, actions, rewards = rollout(env, model, args.horizon)
        returns = discounted_returns(rewards, args.gamma)
        loss = update(model, optimizer, obs, actions, returns, args.entropy)
        recent.append(rewards.mean())
        if i % 20 == 0:
            print(f"update {i:3d} loss {loss.item():+.3f} reward {np.mean(recent):+.3f} "
                  f"greedy {evaluate(model, 999, args.horizon):+.3f} {time.time() - started:.1f}s", flush=True)


if __name__ == "__main__":
    main()
