"""Double DQN with prioritised replay: when and how much each shop reorders."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ORDERS = np.array([0, 5, 10, 20, 40, 80], dtype=np.float32)


class Shops:
    """A row of independent shops, stepped together with numpy."""

    def __init__(self, n, lead=4, seed=0):
        self.n, self.lead = n, lead
        self.rng = np.random.default_rng(seed)
        self.mean = self.rng.uniform(4, 16, n).astype(np.float32)
        self.stock = self.rng.uniform(0, 60, n).astype(np.float32)
        self.pipe = np.zeros((n, lead), dtype=np.float32)
        self.sold = np.zeros((n, 14), dtype=np.float32)
        self.day = self.rng.integers(0, 7, n)

    def observe(self):
        week = np.eye(7, dtype=np.float32)[self.day]
        parts = [self.stock[:, None] / 50, self.pipe / 40, self.sold / 20, week, self.mean[:, None] / 10]
        return np.concatenate(parts, axis=1)

    def step(self, action):
        order = ORDERS[action]
        self.stock = np.minimum(self.stock + self.pipe[:, 0], 200)
        self.pipe = np.concatenate([self.pipe[:, 1:], order[:, None]], axis=1)
        season = 1 + 0.5 * np.sin(2 * np.pi * self.day / 7)
        demand = self.rng.poisson(self.mean * season).astype(np.float32)
        sales = np.minimum(self.stock, demand)
        self.stock = self.stock - sales
        self.sold = np.concatenate([self.sold[:, 1:], sales[:, None]], axis=1)
        self.day = (self.day + 1) % 7
        reward = sales - 0.05 * self.stock - 0.8 * (demand - sales) - 2.0 * (order > 0)
        return self.observe(), (reward / 10).astype(np.float32)


class PrioritisedReplay:
    def __init__(self, capacity, obs_dim, alpha=0.6, seed=0):
        self.capacity, self.alpha = capacity, alpha
        self.rng = np.random.default_rng(seed)
        self.obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.action = np.zeros(capacity, dtype=np.int64)
        self.reward = np.zeros(capacity, dtype=np.float32)
        self.priority = np.zeros(capacity, dtype=np.float64)
        self.top, self.head, self.size = 1.0, 0, 0

    def add(self, obs, action, reward, next_obs):
        idx = (self.head + np.arange(len(action))) % self.capacity
        self.obs[idx], self.next_obs[idx] = obs, next_obs
        self.action[idx], self.reward[idx] = action, reward
        self.priority[idx] = self.top
        self.head = (self.head + len(action)) % self.capacity
        self.size = min(self.size + len(action), self.capacity)

    def sample(self, batch_size, beta):
        prob = self.priority[:self.size] ** self.alpha
        prob /= prob.sum()
        idx = self.rng.choice(self.size, batch_size, p=prob)
        weight = (self.size * prob[idx]) ** -beta
        batch = (self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], (weight / weight.max()).astype(np.float32))
        return idx, [torch.from_numpy(x) for x in batch]

    def update(self, idx, error):
        self.priority[idx] = np.abs(error) + 1e-3
        self.top = max(self.top, float(self.priority[idx].max()))


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, actions, width=192):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, actions)

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=5000)
    ap.add_argument("--envs", type=int, default=32)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--capacity", type=int, default=400_000)
    ap.add_argument("--warmup", type=int, default=320_000)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(1)

    shops = Shops(args.envs)
    obs = shops.observe()
    replay = PrioritisedReplay(args.capacity, obs.shape[1])
    for _ in range(args.warmup // args.envs):
        action = rng.integers(0, len(ORDERS), args.envs)
        next_obs, reward = shops.step(action)
        replay.add(obs, action, reward, next_obs)
        obs = next_obs

    net, target = DuelingNet(obs.shape[1], len(ORDERS)), DuelingNet(obs.shape[1], len(ORDERS))
    target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    gamma, income, t0 = 0.97, 0.0, time.time()
    for step in range(1, args.steps + 1):
        eps = max(0.05, 0.5 - step / 4000)
        with torch.no_grad():
            greedy = net(torch.from_numpy(obs)).argmax(dim=1).numpy()
        action = np.where(rng.random(args.envs) < eps, rng.integers(0, len(ORDERS), args.envs), greedy)
        next_obs, reward = shops.step(action)
        replay.add(obs, action, reward, next_obs)
        obs = next_obs
        income += float(reward.mean())

        beta = min(1.0, 0.4 + 0.6 * step / args.steps)
        idx, (o, a, r, o2, w) = replay.sample(args.batch_size, beta)
        with torch.no_grad():
            best = net(o2).argmax(dim=1, keepdim=True)
            goal = r + gamma * target(o2).gather(1, best).squeeze(1)
        q = net(o).gather(1, a.unsqueeze(1)).squeeze(1)
        error = q - goal
        loss = (w * F.huber_loss(q, goal, reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        replay.update(idx, error.detach().numpy())
        if step % 200 == 0:
            target.load_state_dict(net.state_dict())
            print(f"step {step} income {income / 200:.3f} loss {loss.item():.4f} {(time.time() - t0) / step * 1e3:.2f} ms/step", flush=True)
            income = 0.0


if __name__ == "__main__":
    main()
