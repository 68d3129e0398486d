"""Double DQN that learns when to reorder which product in a small warehouse.

A fleet of simulated warehouses runs side by side; the buffer starts with a year of
transitions of the old ordering rule and goes on with the agent's own.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PRODUCTS = 8
ACTIONS = 1 + 2 * PRODUCTS      # nothing, or a small / a large order of one product
STATE = 3 * PRODUCTS + 2


class Warehouses:
    """Vectorised simulator: stock, what is on its way, seasonal demand."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.base = self.rng.uniform(0.5, 2.5, (n, PRODUCTS))
        self.stock = self.rng.uniform(5, 25, (n, PRODUCTS))
        self.coming = np.zeros((n, PRODUCTS))
        self.day = self.rng.integers(0, 365, n)

    def state(self):
        season = 2 * np.pi * self.day / 365
        return np.concatenate([self.stock / 20, self.coming / 20, self.base,
                               np.sin(season)[:, None], np.cos(season)[:, None]], 1).astype(np.float32)

    def step(self, action):
        rows = np.flatnonzero(action > 0)
        which, large = (action[rows] - 1) % PRODUCTS, action[rows] > PRODUCTS
        amount = np.where(large, 24.0, 8.0)
        arrived = self.rng.random((self.n, PRODUCTS)) < 0.4
        self.stock += np.where(arrived, self.coming, 0)
        self.coming[arrived] = 0
        self.coming[rows, which] += amount
        season = 1 + 0.4 * np.sin(2 * np.pi * self.day / 365)[:, None]
        demand = self.rng.poisson(self.base * season * 0.6)
        sold = np.minimum(demand, self.stock)
        self.stock -= sold
        cost = 0.02 * self.stock.sum(1) + 0.5 * (demand - sold).sum(1)
        cost[rows] += 0.5 + 0.02 * amount
        self.day = (self.day + 1) % 365
        return (0.2 * sold.sum(1) - cost).astype(np.float32)


class ReplayBuffer:
    """Prioritised replay (proportional variant)."""

    def __init__(self, capacity, alpha=0.6, seed=0):
        self.capacity, self.alpha = capacity, alpha
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros((capacity, STATE), np.float32)
        self.next_state = np.zeros((capacity, STATE), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.priority = np.zeros(capacity)
        self.head, self.size, self.top = 0, 0, 1.0

    def add(self, state, action, reward, next_state):
        at = (self.head + np.arange(len(action))) % self.capacity
        self.state[at], self.next_state[at] = state, next_state
        self.action[at], self.reward[at] = action, reward
        self.priority[at] = self.top
        self.head = (self.head + len(action)) % self.capacity
        self.size = min(self.size + len(action), self.capacity)

    def sample(self, k, beta):
        weight = self.priority[:self.size] ** self.alpha
        prob = weight / weight.sum()
        at = self.rng.choice(self.size, k, p=prob)
        correction = (self.size * prob[at]) ** -beta
        correction /= correction.max()
        batch = (self.state[at], self.action[at], self.reward[at], self.next_state[at],
                 correction.astype(np.float32))
        return at, [torch.from_numpy(x) for x in batch]

    def update(self, at, error):
        self.priority[at] = error + 1e-3
        self.top = max(self.top, float(error.max()))


def q_network(width):
    return nn.Sequential(nn.Linear(STATE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, width), nn.ReLU(), nn.Linear(width, ACTIONS))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2500)
    ap.add_argument("--warehouses", type=int, default=64)
    ap.add_argument("--capacity", type=int, default=600_000)
    ap.add_argument("--history", type=int, default=500_000)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--width", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)

    buffer = ReplayBuffer(args.capacity)
    old = Warehouses(5000, seed=1)
    while buffer.size < args.history:
        state = old.state()
        low = (old.stock + old.coming).argmin(1)
        action = np.where(rng.random(old.n) < 0.5, 1 + low + PRODUCTS * rng.integers(0, 2, old.n), 0)
        reward = old.step(action)
        buffer.add(state, action, reward, old.state())

    q, target = q_network(args.width), q_network(args.width)
    target.load_state_dict(q.state_dict())
    target.requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=3e-4, fused=True)
    envs = Warehouses(args.warehouses, seed=2)
    state = envs.state()
    gain, losses = 0.0, 0.0
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        epsilon = max(0.05, 1 - step / (0.5 * args.steps))
        with torch.no_grad():
            action = q(torch.from_numpy(state)).argmax(1).numpy()
        explore = rng.random(envs.n) < epsilon
        action[explore] = rng.integers(0, ACTIONS, explore.sum())
        reward = envs.step(action)
        following = envs.state()
        buffer.add(state, action, reward, following)
        state = following
        gain += reward.mean()

        at, (s, a, r, s2, w) = buffer.sample(args.batch, beta=0.4 + 0.6 * step / args.steps)
        with torch.no_grad():
            best = q(s2).argmax(1, keepdim=True)
            goal = r + 0.98 * target(s2).gather(1, best).squeeze(1)
        value = q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = (w * F.smooth_l1_loss(value, goal, reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        buffer.update(at, (goal - value.detach()).abs().numpy())

        losses += loss.item()
        if step % 100 == 0:
            target.load_state_dict(q.state_dict())
        if step % 200 == 0:
            took = time.perf_counter() - start
            print(f"step {step:5d}  loss {losses / 200:.4f}  reward/day {gain / 200:.3f}  "
                  f"epsilon {epsilon:.2f}  {1000 * took / step:.2f} ms/step", flush=True)
            gain, losses = 0.0, 0.0
    print(f"done: {args.steps} steps in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
