"""Double DQN with prioritised replay on a small lunar-lander-like task."""
import argparse
import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Lander:
    """Vertical/horizontal descent: 0 coast, 1 main engine, 2 left, 3 right."""
    n_actions, n_obs = 4, 6

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.x, self.y = self.rng.uniform(-1, 1), 1.5
        self.vx, self.vy = self.rng.uniform(-0.3, 0.3), 0.0
        self.fuel, self.t = 1.0, 0
        return self.obs()

    def obs(self):
        return np.array([self.x, self.y, self.vx, self.vy, self.fuel, self.t / 200], dtype=np.float32)

    def step(self, a):
        dt, thrust = 0.05, self.fuel > 0
        self.vy -= 0.8 * dt - (1.6 * dt if a == 1 and thrust else 0)
        self.vx += 0.9 * dt * ((a == 2) - (a == 3)) * thrust
        self.fuel -= 0.006 * (a != 0)
        self.x += self.vx * dt
        self.y += self.vy * dt
        self.t += 1
        reward, done = -0.05 * abs(self.x) - 0.02 * abs(self.vx), self.t >= 200 or abs(self.x) > 2
        if self.y <= 0:
            done, reward = True, 1.0 - abs(self.x) - 1.5 * abs(self.vy)
        return self.obs(), reward, done


class PrioritizedReplay:
    def __init__(self, capacity, alpha=0.6, beta=0.4):
        self.alpha, self.beta = alpha, beta
        self.capacity, self.size, self.head = capacity, 0, 0
        self.s, self.s2 = np.zeros((2, capacity, Lander.n_obs), dtype=np.float32)
        self.a = np.zeros(capacity, dtype=np.int64)
        self.r, self.d = np.zeros((2, capacity), dtype=np.float32)
        self.priorities = np.zeros(capacity)

    def push(self, transition):
        i = self.head
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = transition
        self.priorities[i] = 1.0
        self.head, self.size = (i + 1) % self.capacity, min(self.size + 1, self.capacity)

    def sample(self, batch_size):
        cum = np.cumsum(self.priorities[:self.size])
        idx = np.searchsorted(cum, np.random.random(batch_size) * cum[-1])
        weights = (self.size * self.priorities[idx] / cum[-1]) ** -self.beta
        return (idx, torch.from_numpy(self.s[idx]), torch.from_numpy(self.a[idx]), torch.from_numpy(self.r[idx]),
                torch.from_numpy(self.s2[idx]), torch.from_numpy(self.d[idx]),
                torch.tensor(weights / weights.max(), dtype=torch.float32))

    def update(self, idx, td):
        self.priorities[idx] = (np.abs(td) + 1e-3) ** self.alpha


def q_network(n_obs, n_actions, hidden):
    return nn.Sequential(nn.Linear(n_obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, n_actions))


def learn(net, target, opt, replay, batch_size, gamma):
    idx, s, a, r, s2, d, w = replay.sample(batch_size)
    q = net(s).gather(1, a[:, None]).squeeze(1)
    with torch.no_grad():
        best = net(s2).argmax(1, keepdim=True)
        y = r + gamma * (1 - d) * target(s2).gather(1, best).squeeze(1)
    td = y - q
    loss = (w * F.smooth_l1_loss(q, y, reduction="none")).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    replay.update(idx, td.detach().numpy())
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4000)
    ap.add_argument("--warmup", type=int, default=80_000)
    ap.add_argument("--capacity", type=int, default=100_000)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--hidden", type=int, default=128)
    ap.add_argument("--gamma", type=float, default=0.99)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)

    env, replay = Lander(0), PrioritizedReplay(args.capacity)
    net = q_network(env.n_obs, env.n_actions, args.hidden)
    target = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, fused=True)

    obs, score, scores = env.reset(), 0.0, deque(maxlen=20)
    for t in range(args.warmup + args.steps):
        eps = 1.0 if t < args.warmup else max(0.05, 1 - (t - args.warmup) / 1500)
        if random.random() < eps:
            action = random.randrange(env.n_actions)
        else:
            with torch.no_grad():
                action = int(net(torch.from_numpy(obs)[None]).argmax())
        nxt, reward, done = env.step(action)
        replay.push((obs, action, reward, nxt, done))
        score += reward
        obs = nxt
        if done:
            scores.append(score)
            obs, score = env.reset(), 0.0
        if t >= args.warmup:
            loss = learn(net, target, opt, replay, args.batch_size, args.gamma)
            if t % 200 == 0:
                target.load_state_dict(net.state_dict())
                print(f"t {t - args.warmup:5d} loss {loss.item():.4f} score {np.mean(scores):.2f}", flush=True)


if __name__ == "__main__":
    main()
