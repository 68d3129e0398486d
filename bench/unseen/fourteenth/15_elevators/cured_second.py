"""Distributional DQN (C51) with prioritised replay for dispatching one lift of an office building.

The lift decides, at each tick, to go up, go down or open its doors; the reward is minus the people waiting.
"""
import argparse
import collections
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FLOORS, CAPACITY = 12, 8
UP, DOWN, OPEN = 0, 1, 2
Transition = collections.namedtuple("Transition", "obs action reward next_obs done")


class OfficeTower:
    """A row of identical towers, simulated side by side."""

    def __init__(self, towers, seed, horizon=200):
        self.n, self.horizon = towers, horizon
        self.rng = np.random.default_rng(seed)
        self.rows = np.arange(towers)
        self.waiting = np.zeros((towers, FLOORS))
        self.inside = np.zeros((towers, FLOORS))
        self.floor = self.rng.integers(0, FLOORS, towers)
        self.clock = self.rng.integers(0, horizon, towers)

    def observe(self):
        here = np.zeros((self.n, FLOORS))
        here[self.rows, self.floor] = 1
        full = self.inside.sum(1, keepdims=True) / CAPACITY
        hour = self.clock[:, None] / self.horizon
        return np.concatenate([np.minimum(self.waiting, 5) / 5, self.inside / CAPACITY, here, full, hour], 1).astype(np.float32)

    def step(self, action):
        self.floor = np.clip(self.floor + (action == UP) - (action == DOWN), 0, FLOORS - 1)
        opened = action == OPEN
        left = np.where(opened, self.inside[self.rows, self.floor], 0)
        self.inside[self.rows, self.floor] -= left
        room = CAPACITY - self.inside.sum(1)
        board = np.where(opened, np.minimum(room, self.waiting[self.rows, self.floor]), 0)
        self.waiting[self.rows, self.floor] -= board
        ground = self.floor == 0
        goal = np.where(ground, self.rng.integers(1, FLOORS, self.n), 0)
        self.inside[self.rows, goal] += board
        morning = np.sin(np.pi * self.clock / self.horizon)
        rate = np.full((self.n, FLOORS), 0.01)
        rate[:, 0] += 0.15 * morning
        self.waiting += self.rng.random((self.n, FLOORS)) < rate
        reward = (left - 0.05 * (self.waiting.sum(1) + self.inside.sum(1))).astype(np.float32)
        self.clock += 1
        done = self.clock >= self.horizon
        self.waiting[done], self.inside[done], self.clock[done] = 0, 0, 0
        return self.observe(), reward, done


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, alpha=0.6, seed=0):
        self.capacity, self.alpha = capacity, alpha
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.priorities = np.zeros(capacity, np.float64)
        self.pos, self.size, self.peak = 0, 0, 1.0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, action, reward, next_obs, done):
        at = (self.pos + np.arange(len(obs))) % self.capacity
        self.obs[at], self.action[at], self.reward[at], self.next_obs[at], self.done[at] = obs, action, reward, next_obs, done
        self.priorities[at] = self.peak
        self.pos = (self.pos + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, batch, beta):
        probs = self.priorities[:self.size] ** self.alpha
        probs /= probs.sum()
        at = self.rng.choice(self.size, batch, p=probs)
        weights = (self.size * probs[at]) ** -beta
        weights = torch.from_numpy((weights / weights.max()).astype(np.float32))
        fields = (self.obs[at], self.action[at], self.reward[at], self.next_obs[at], self.done[at])
        return Transition(*map(torch.from_numpy, fields)), at, weights

    def update(self, at, priorities):
        self.priorities[at] = priorities + 1e-5
        self.peak = max(self.peak, float(priorities.max()))


class C51(nn.Module):
    def __init__(self, obs_dim, actions=3, atoms=51, width=448):
        super().__init__()
        self.actions, self.atoms = actions, atoms
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value, self.advantage = nn.Linear(width, atoms), nn.Linear(width, actions * atoms)

    def forward(self, obs):
        h = self.body(obs)
        adv = self.advantage(h).view(-1, self.actions, self.atoms)
        return (self.value(h)[:, None] + adv - adv.mean(1, keepdim=True)).log_softmax(-1)


class Agent:
    def __init__(self, obs_dim, args):
        self.args = args
        self.net, self.target = C51(obs_dim), C51(obs_dim)
        self.target.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1.5e-4)
        self.vmin, self.vmax = -30.0, 10.0
        self.support = torch.linspace(self.vmin, self.vmax, self.net.atoms)
        self.delta = (self.vmax - self.vmin) / (self.net.atoms - 1)

    @torch.no_grad()
    def act(self, obs, epsilon):
        q = (self.net(torch.from_numpy(obs)).exp() * self.support).sum(-1)
        random = np.random.randint(0, 3, len(obs))
        return np.where(np.random.rand(len(obs)) < epsilon, random, q.argmax(1).numpy())

    @torch.no_grad()
    def project(self, t):
        best = (self.net(t.next_obs).exp() * self.support).sum(-1).argmax(1)
        dist = self.target(t.next_obs)[torch.arange(len(best)), best].exp()
        tz = t.reward[:, None] + self.args.gamma * (1 - t.done[:, None]) * self.support
        b = (tz.clamp(self.vmin, self.vmax) - self.vmin) / self.delta
        low = b.floor()
        high = (low + 1).clamp(max=len(self.support) - 1)
        out = torch.zeros_like(dist)
        out.scatter_add_(1, low.long(), dist * (low + 1 - b))
        return out.scatter_add_(1, high.long(), dist * (b - low))

    def learn(self, t, weights):
        goal = self.project(t)
        logp = self.net(t.obs)[torch.arange(len(t.action)), t.action]
        errors = -(goal * logp).sum(-1)
        loss = (weights * errors).mean()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.opt.step()
        return loss.item(), errors.detach().numpy()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--updates", type=int, default=1800)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--capacity", type=int, default=500_000)
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--sync", type=int, default=150)
    args = p.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)

    crowd = OfficeTower(500, seed=1)
    obs = crowd.observe()
    memory = PrioritizedReplay(args.capacity, obs.shape[1])
    for _ in range(args.capacity // crowd.n):
        action = np.random.randint(0, 3, crowd.n)
        next_obs, reward, done = crowd.step(action)
        memory.add(obs, action, reward, next_obs, done)
        obs = next_obs
    print(f"replay holds {memory.size} random transitions")

    env, agent = OfficeTower(16, seed=2), Agent(obs.shape[1], args)
    obs, recent, start = env.observe(), collections.deque(maxlen=200), time.time()
    for update in range(args.updates):
        action = agent.act(obs, epsilon=max(0.05, 1 - update / 900))
        next_obs, reward, done = env.step(action)
        memory.add(obs, action, reward, next_obs, done)
        obs = next_obs
        recent.append(reward.mean())
        batch, at, weights = memory.sample(args.batch, beta=0.4 + 0.6 * update / args.updates)
        loss, errors = agent.learn(batch, weights)
        memory.update(at, errors)
        if update % args.sync == 0:
            agent.target.load_state_dict(agent.net.state_dict())
        if update % 50 == 0:
            print(f"update {update} loss {loss:.3f} reward {np.mean(recent):.3f} {time.time() - start:.1f} s")
    torch.save(agent.net.state_dict(), "/tmp/c51_lift.pt")


if __name__ == "__main__":
    main()
