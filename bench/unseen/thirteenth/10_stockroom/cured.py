# Quantile-regression DQN with prioritised replay for a multi-item stockroom: how much of which item to reorder each day.
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


@dataclass
class Args:
    exp_name: str = "stockroom_qrdqn"
    seed: int = 3
    total_updates: int = 1400
    num_envs: int = 64
    n_items: int = 8
    lead_time: int = 2
    buffer_size: int = 1_000_000
    prefill: int = 900_000
    batch_size: int = 256
    gamma: float = 0.98
    n_quantiles: int = 32
    hidden: int = 256
    lr: float = 3e-4
    alpha: float = 0.6
    beta_start: float = 0.4
    target_every: int = 100
    eps_start: float = 0.5
    eps_end: float = 0.05
    eval_every: int = 200
    out_dir: str = "/tmp/stockroom"


class StockroomVec:
    """n parallel stockrooms. Action 0: order nothing; 1 + 2 * i + j: order a small (j=0) or a large (j=1) lot of item i."""

    LOTS = np.array([8.0, 20.0], dtype=np.float32)

    def __init__(self, n, items, lead, rng):
        self.n, self.items, self.lead, self.rng = n, items, lead, rng
        self.base = np.linspace(0.8, 2.6, items).astype(np.float32)
        self.margin = np.linspace(3.0, 1.2, items).astype(np.float32)
        self.n_actions = 1 + 2 * items
        self.obs_dim = items * (1 + lead) + 2
        self.stock = rng.uniform(4, 15, (n, items)).astype(np.float32)
        self.pipe = np.zeros((n, lead, items), dtype=np.float32)
        self.day = rng.integers(0, 364, n)

    def obs(self):
        phase = 2 * np.pi * self.day / 7
        cal = np.stack([np.sin(phase), np.cos(phase)], 1)
        return np.concatenate([self.stock / 20, self.pipe.reshape(self.n, -1) / 20, cal], 1).astype(np.float32)

    def step(self, action):
        self.stock = np.minimum(self.stock + self.pipe[:, 0], 60)
        self.pipe = np.roll(self.pipe, -1, axis=1)
        self.pipe[:, -1] = 0
        idx = np.nonzero(action)[0]
        a = action[idx] - 1
        self.pipe[idx, -1, a // 2] = self.LOTS[a % 2]
        season = 1 + 0.4 * np.sin(2 * np.pi * self.day / 7)
        demand = self.rng.poisson(self.base * season[:, None]).astype(np.float32)
        sold = np.minimum(demand, self.stock)
        self.stock = self.stock - sold
        reward = (sold * self.margin).sum(1) - 0.04 * self.stock.sum(1) - 0.5 * (demand - sold).sum(1) - 1.0 * (action > 0)
        self.day = self.day + 1
        done = self.day % 364 == 0
        return self.obs(), (reward / 20).astype(np.float32), done


class SumTree:
    """Sums of powers of two of leaves; all operations on arrays of indices at once."""

    def __init__(self, capacity):
        self.depth = int(np.ceil(np.log2(capacity)))
        self.leaves = 1 << self.depth
        self.tree = np.zeros(2 * self.leaves, dtype=np.float64)

    def set(self, idx, value):
        node = idx + self.leaves
        self.tree[node] = value
        for _ in range(self.depth):
            node = node >> 1
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]

    def find(self, mass):
        node = np.ones(len(mass), dtype=np.int64)
        for _ in range(self.depth):
            left = self.tree[2 * node]
            right = (mass >= left) & (self.tree[2 * node + 1] > 0)
            mass = np.where(right, mass - left, mass)
            node = 2 * node + right
        return node - self.leaves


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, alpha):
        self.capacity, self.alpha = capacity, alpha
        self.obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.action = np.zeros(capacity, dtype=np.int64)
        self.reward = np.zeros(capacity, dtype=np.float32)
        self.done = np.zeros(capacity, dtype=np.float32)
        self.sums = SumTree(capacity)
        self.max_priority = 1.0
        self.pos, self.size = 0, 0

    def add(self, obs, action, reward, next_obs, done, priority=None):
        idx = (self.pos + np.arange(len(obs))) % self.capacity
        self.obs[idx], self.next_obs[idx] = obs, next_obs
        self.action[idx], self.reward[idx], self.done[idx] = action, reward, done
        self.sums.set(idx, (self.max_priority if priority is None else priority) ** self.alpha)
        self.pos = (self.pos + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, batch_size, beta):
        total = self.sums.tree[1]
        idx = self.sums.find(np.random.random(batch_size) * total)
        probs = self.sums.tree[self.sums.leaves + idx] / total
        weights = (self.size * probs) ** (-beta)
        weights = (weights / weights.max()).astype(np.float32)
        batch = (self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.done[idx], weights)
        return idx, [torch.from_numpy(b) for b in batch]

    def update(self, idx, td):
        self.sums.set(idx, (td + 1e-5) ** self.alpha)
        self.max_priority = max(self.max_priority, float(td.max()))


class QuantileNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden, n_quantiles):
        super().__init__()
        self.n_actions, self.n_quantiles = n_actions, n_quantiles
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_quantiles))
        self.adv = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_actions * n_quantiles))

    def forward(self, x):
        h = self.body(x)
        adv = self.adv(h).view(-1, self.n_actions, self.n_quantiles)
        return self.value(h).unsqueeze(1) + adv - adv.mean(1, keepdim=True)


def quantile_huber(pred, target, tau):
    """pred (B, N), target (B, M) -> per-sample loss and mean absolute TD error"""
    diff = target.unsqueeze(1) - pred.unsqueeze(2)
    huber = F.huber_loss(pred.unsqueeze(2).expand_as(diff), target.unsqueeze(1).expand_as(diff), reduction="none")
    loss = (tau.view(1, -1, 1) - (diff.detach() < 0).float()).abs() * huber
    return loss.mean(2).sum(1), diff.detach().abs().mean((1, 2))


@torch.no_grad()
def evaluate(net, args, days=60):
    env = StockroomVec(32, args.n_items, args.lead_time, np.random.default_rng(99))
    obs, total = env.obs(), 0.0
    for _ in range(days):
        action = net(torch.from_numpy(obs)).mean(2).argmax(1).numpy()
        obs, reward, _ = env.step(action)
        total += reward.mean()
    return total / days


def main():
    args = Args()
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    os.makedirs(args.out_dir, exist_ok=True)

    warm = StockroomVec(1500, args.n_items, args.lead_time, rng)
    rb = PrioritizedReplay(args.buffer_size, warm.obs_dim, args.alpha)
    obs = warm.obs()
    while rb.size < args.prefill:                     # experience of the clerks' habit: order now and then, anything
        action = rng.integers(1, warm.n_actions, warm.n) * (rng.random(warm.n) < 0.7)
        next_obs, reward, done = warm.step(action)
        rb.add(obs, action, reward, next_obs, done, priority=np.abs(reward) + 0.1)
        obs = next_obs

    envs = StockroomVec(args.num_envs, args.n_items, args.lead_time, rng)
    q = QuantileNet(envs.obs_dim, envs.n_actions, args.hidden, args.n_quantiles)
    target = QuantileNet(envs.obs_dim, envs.n_actions, args.hidden, args.n_quantiles)
    target.load_state_dict(q.state_dict())
    optimizer = optim.Adam(q.parameters(), lr=args.lr, eps=1e-5)
    tau = (torch.arange(args.n_quantiles) + 0.5) / args.n_quantiles
    obs, start = envs.obs(), time.time()
    rows = torch.arange(args.batch_size)

    for update in range(1, args.total_updates + 1):
        frac = update / args.total_updates
        eps = args.eps_start + (args.eps_end - args.eps_start) * min(1.0, 2 * frac)
        with torch.no_grad():
            action = q(torch.from_numpy(obs)).mean(2).argmax(1).numpy()
        explore = rng.random(args.num_envs) < eps
        action = np.where(explore, rng.integers(0, envs.n_actions, args.num_envs), action)
        next_obs, reward, done = envs.step(action)
        rb.add(obs, action, reward, next_obs, done)
        obs = next_obs

        idx, (b_obs, b_act, b_rew, b_next, b_done, w) = rb.sample(args.batch_size, args.beta_start + (1 - args.beta_start) * frac)
        with torch.no_grad():
            best = q(b_next).mean(2).argmax(1)
            goal = b_rew[:, None] + args.gamma * (1 - b_done[:, None]) * target(b_next)[rows, best]
        loss_each, td = quantile_huber(q(b_obs)[rows, b_act], goal, tau)
        loss = (w * loss_each).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q.parameters(), 10.0)
        optimizer.step()
        rb.update(idx, td.numpy())

        if update % args.target_every == 0:
            target.load_state_dict(q.state_dict())
        if update % 50 == 0:
            print(f"update {update} loss {loss.item():.4f} reward {reward.mean():.3f} eps {eps:.2f} UPS {update / (time.time() - start):.1f}")
        if update % args.eval_every == 0:
            print(f"  greedy reward per day {evaluate(q, args):.3f}")
            torch.save(q.state_dict(), os.path.join(args.out_dir, "q.pt"))


if __name__ == "__main__":
    main()
