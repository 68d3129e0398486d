"""Distributional DQN (C51) for the weekly release of a dam: flood risk, water supply and hydropower.

The replay buffer is filled first with a history of operation by the rule curve, then the agent goes on by itself.
"""
import argparse
import os
import time

import numpy as np
import torch
from torch import nn

LAGS = 26


class Reservoir:
    """Storage with seasonal inflow; `n` independent dams are simulated side by side."""

    RELEASES = np.linspace(0.0, 1.0, 9, dtype=np.float32)

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.week = self.rng.integers(0, 52, n)
        self.storage = self.rng.uniform(0.3, 0.7, n).astype(np.float32)
        self.wet = np.zeros(n, np.float32)
        self.past = np.zeros((n, LAGS, 4), np.float32)
        for _ in range(LAGS):
            self.step(self.rule())

    def rule(self):
        target = 0.55 - 0.2 * np.cos(2 * np.pi * (self.week - 10) / 52)
        return np.clip(np.round(4 + 14 * (self.storage - target) + self.rng.normal(0, 1.2, self.n)), 0, 8).astype(np.int64)

    def step(self, action):
        season = 0.5 + 0.4 * np.sin(2 * np.pi * self.week / 52)
        self.wet = (0.8 * self.wet + 0.3 * self.rng.standard_normal(self.n)).astype(np.float32)
        inflow = np.clip(0.08 * season * np.exp(self.wet), 0, 0.5).astype(np.float32)
        release = np.minimum(0.12 * self.RELEASES[action], self.storage + inflow)
        level = self.storage + inflow - release
        spill = np.maximum(level - 1.0, 0)
        demand = (0.05 * (1.2 - season)).astype(np.float32)
        reward = 6 * release * np.sqrt(self.storage) - 30 * spill - 5 * np.maximum(demand - release, 0)
        self.storage = np.minimum(level, 1.0).astype(np.float32)
        self.week = (self.week + 1) % 52
        self.past = np.roll(self.past, -1, 1)
        self.past[:, -1] = np.stack([self.storage, inflow * 5, release * 8, season], 1)
        return self.past.copy(), reward.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, capacity, alpha=0.6):
        self.alpha, self.capacity = alpha, capacity
        self.state = np.zeros((capacity, LAGS + 1, 4), np.float32)  # the week after is the last row
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.priority = np.zeros(capacity, np.float32)
        self.depth = (capacity - 1).bit_length()
        self.tree = np.zeros(2 << self.depth)  # sums of priority ** alpha, leaves in the second half
        self.at = self.filled = 0

    def assign(self, index, priority):
        self.priority[index] = priority
        node = index + (1 << self.depth)
        self.tree[node] = self.priority[index] ** self.alpha
        for _ in range(self.depth):
            node = node // 2
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]

    def add(self, window, action, reward):
        n = len(action)
        where = (self.at + np.arange(n)) % self.capacity
        self.state[where], self.action[where], self.reward[where] = window, action, reward
        self.assign(where, self.priority.max() if self.filled else 1.0)
        self.at = (self.at + n) % self.capacity
        self.filled = min(self.capacity, self.filled + n)

    def sample(self, batch, beta):
        mass = np.random.random(batch) * self.tree[1]
        node = np.ones(batch, np.int64)
        for _ in range(self.depth):
            left = self.tree[2 * node]
            right = mass >= left
            mass = np.where(right, mass - left, mass)
            node = 2 * node + right
        index = np.minimum(node - (1 << self.depth), self.filled - 1)
        weight = (self.filled * self.tree[node] / self.tree[1]) ** -beta
        weight = torch.from_numpy((weight / weight.max()).astype(np.float32))
        window = torch.from_numpy(self.state[index])
        return index, weight, window[:, :-1], torch.from_numpy(self.action[index]), self.reward[index], window[:, 1:]

    def update(self, index, priority):
        self.assign(index, priority + 1e-4)


class QNet(nn.Module):
    def __init__(self, actions=9, atoms=51, width=32):
        super().__init__()
        self.actions, self.atoms = actions, atoms
        self.body = nn.Sequential(
            nn.Conv1d(4, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(width * LAGS // 2, 192), nn.ReLU())
        self.advantage, self.value = nn.Linear(192, actions * atoms), nn.Linear(192, atoms)

    def forward(self, x):
        h = self.body(x.transpose(1, 2))
        a = self.advantage(h).view(-1, self.actions, self.atoms)
        return (self.value(h)[:, None] + a - a.mean(1, keepdim=True)).log_softmax(-1)


class Agent:
    def __init__(self, args):
        self.args = args
        self.online, self.target = QNet(), QNet()
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=args.lr, eps=1.5e-4)
        self.v_min, self.v_max, self.atoms = -10.0, 20.0, self.online.atoms
        self.support = torch.linspace(self.v_min, self.v_max, self.atoms)

    @torch.no_grad()
    def act(self, state, epsilon, rng):
        q = (self.online(torch.from_numpy(state)).exp() * self.support).sum(-1)
        greedy = q.argmax(1).numpy()
        return np.where(rng.random(len(greedy)) < epsilon, rng.integers(0, 9, len(greedy)), greedy)

    @torch.no_grad()
    def project(self, reward, after):
        """Target distribution on the fixed support (double DQN choice of the action)."""
        best = (self.online(after).exp() * self.support).sum(-1).argmax(1)
        p = self.target(after).exp()[torch.arange(len(best)), best].numpy()
        delta = (self.v_max - self.v_min) / (self.atoms - 1)
        m = np.zeros((len(reward), self.atoms), np.float32)
        tz = np.clip(reward[:, None] + self.args.gamma * (self.v_min + delta * np.arange(self.atoms))[None], self.v_min, self.v_max)
        b = (tz - self.v_min) / delta
        low = np.clip(np.floor(b).astype(np.int64), 0, self.atoms - 2)
        rows = np.arange(len(reward))[:, None]
        np.add.at(m, (rows, low), (p * (low + 1 - b)).astype(np.float32))
        np.add.at(m, (rows, low + 1), (p * (b - low)).astype(np.float32))
        return torch.from_numpy(m)

    def learn(self, replay, beta):
        index, weight, state, action, reward, after = replay.sample(self.args.batch, beta)
        target = self.project(reward, after)
        logp = self.online(state)[torch.arange(len(action)), action]
        each = -(target * logp).sum(1)
        loss = (weight * each).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        replay.update(index, each.detach().numpy())
        return loss.item()


def fill(replay, weeks, dams):
    env = Reservoir(dams, seed=2)
    for _ in range(weeks):
        action, before = env.rule(), env.past[:, :1]
        after, reward = env.step(action)
        replay.add(np.concatenate([before, after], 1), action, reward)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1100)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--history", type=int, default=1000, help="weeks of operation by the rule curve")
    p.add_argument("--dams", type=int, default=1000)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--out", default="runs/reservoir")
    args = p.parse_args()
    np.random.seed(0)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    os.makedirs(args.out, exist_ok=True)

    replay = PrioritizedReplay(args.history * args.dams + 20_000)
    fill(replay, args.history, args.dams)
    agent, env = Agent(args), Reservoir(8, seed=5)
    gains, losses, began = [], [], time.time()
    for step in range(1, args.steps + 1):
        before = env.past.copy()
        action = agent.act(before, max(0.02, 0.3 - step / 1000), rng)
        after, reward = env.step(action)
        replay.add(np.concatenate([before[:, :1], after], 1), action, reward)
        losses.append(agent.learn(replay, beta=min(1.0, 0.4 + 0.6 * step / args.steps)))
        gains.append(reward.mean())
        if step % 100 == 0:
            agent.target.load_state_dict(agent.online.state_dict())
        if step % 50 == 0:
            print(f"step {step} loss {np.mean(losses[-50:]):.4f} reward {np.mean(gains[-50:]):.4f} {time.time() - began:.1f} s", flush=True)
    torch.save(agent.online.state_dict(), os.path.join(args.out, "agent.pt"))


if __name__ == "__main__":
    main()
