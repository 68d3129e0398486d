"""Double DQN for greenhouse climate control (vents, heating, misting) with prioritised replay."""
import argparse
import json
import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIONS = np.array([(v, h, m) for v in (0.0, 0.5, 1.0) for h in (0.0, 1.0) for m in (0.0, 1.0)], dtype=np.float32)
N_OBS = 24


class Greenhouses:
    """A block of independent greenhouses stepped together: temperature, humidity, CO2, forecast."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.state = np.tile(np.array([20.0, 0.7, 500.0], dtype=np.float32), (n, 1))
        self.state[:, 0] += rng.normal(0, 3, n)
        self.hour = rng.integers(0, 24, n).astype(np.float32)
        self.climate = rng.normal(0, 1, (n, 16)).astype(np.float32)

    def observe(self):
        phase = self.hour / 24 * 2 * np.pi
        out = 12 + 8 * np.sin(phase - 2) + self.climate[:, 0] * 3
        x = np.stack([(self.state[:, 0] - 20) / 5, (self.state[:, 1] - 0.7) * 5, (self.state[:, 2] - 500) / 200,
                      np.sin(phase), np.cos(phase), (out - 15) / 8,
                      self.state[:, 0] * self.state[:, 1] / 14 - 1, np.ones(self.n)], 1)
        return np.concatenate([x, self.climate], 1).astype(np.float32)

    def step(self, a):
        vent, heat, mist = ACTIONS[a].T
        phase = self.hour / 24 * 2 * np.pi
        out = 12 + 8 * np.sin(phase - 2) + self.climate[:, 0] * 3
        sun = np.maximum(0, np.sin(phase - 1.6)) * (1 + 0.2 * self.climate[:, 1])
        s = self.state
        s[:, 0] += (0.1 + 0.4 * vent) * (out - s[:, 0]) + 3 * sun + 2.5 * heat - 0.8 * mist
        s[:, 1] += 0.1 * mist - 0.12 * vent * (s[:, 1] - 0.4) + 0.02 * sun + self.rng.normal(0, 0.01, self.n)
        s[:, 2] += 0.3 * vent * (420 - s[:, 2]) - 20 * sun + 15
        s[:, 1] = s[:, 1].clip(0.2, 1.0)
        self.hour = (self.hour + 1) % 24
        reward = 1 - np.abs(s[:, 0] - 22) / 6 - 2 * np.abs(s[:, 1] - 0.72) - 0.25 * heat - 0.05 * mist
        done = (s[:, 0] < 4) | (s[:, 0] > 42) | (self.rng.random(self.n) < 1 / 96)
        obs_next = self.observe()
        k = int(done.sum())
        if k:
            s[done] = np.array([20.0, 0.7, 500.0]) + self.rng.normal(0, 1, (k, 3)) * np.array([3, 0.05, 30])
            self.climate[done] = self.rng.normal(0, 1, (k, 16))
        return obs_next, reward.astype(np.float32), done


class PrioritisedReplay:
    def __init__(self, capacity, n_obs, alpha, eps, rng):
        self.capacity, self.alpha, self.eps, self.rng = capacity, alpha, eps, rng
        self.obs = np.zeros((capacity, n_obs), np.float32)
        self.nxt = np.zeros((capacity, n_obs), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.priority = np.zeros(capacity)
        self.top = 1.0
        self.pos, self.size = 0, 0

    def add(self, obs, act, rew, nxt, done):
        idx = (self.pos + np.arange(len(act))) % self.capacity
        self.obs[idx], self.act[idx], self.rew[idx] = obs, act, rew
        self.nxt[idx], self.done[idx] = nxt, done
        self.priority[idx] = self.top
        self.pos = (self.pos + len(act)) % self.capacity
        self.size = min(self.size + len(act), self.capacity)

    def sample(self, batch, beta):
        p = self.priority[:self.size] ** self.alpha
        p /= p.sum()
        idx = self.rng.choice(self.size, batch, p=p)
        w = (self.size * p[idx]) ** -beta
        w = (w / w.max()).astype(np.float32)
        data = [self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx], w]
        return idx, [torch.from_numpy(x) for x in data]

    def update(self, idx, td):
        self.priority[idx] = np.abs(td) + self.eps
        self.top = max(self.top, float(self.priority[idx].max()))


class DuelingNet(nn.Module):
    def __init__(self, n_obs, n_act, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, width), nn.LayerNorm(width), nn.ReLU(),
                                  nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.adv = nn.Linear(width, n_act)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Agent:
    def __init__(self, args):
        self.q = DuelingNet(N_OBS, len(ACTIONS), args.width)
        self.target = DuelingNet(N_OBS, len(ACTIONS), args.width)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), args.lr)
        self.gamma = args.gamma

    @torch.no_grad()
    def act(self, obs, eps, rng):
        a = self.q(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(len(a)) < eps
        return np.where(explore, rng.integers(0, len(ACTIONS), len(a)), a)

    def learn(self, obs, act, rew, nxt, done, w):
        with torch.no_grad():
            best = self.q(nxt).argmax(1, keepdim=True)
            goal = rew + self.gamma * (1 - done) * self.target(nxt).gather(1, best)[:, 0]
        td = self.q(obs).gather(1, act[:, None])[:, 0] - goal
        loss = (w * F.huber_loss(td, torch.zeros_like(td), reduction="none")).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        return loss.item(), td.detach().numpy()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--envs", type=int, default=64)
    p.add_argument("--capacity", type=int, default=800_000)
    p.add_argument("--warmup", type=int, default=700_000)
    p.add_argument("--updates", type=int, default=2000)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--width", type=int, default=288)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--alpha", type=float, default=0.6)
    p.add_argument("--beta", type=float, default=0.4)
    p.add_argument("--target-every", type=int, default=200)
    p.add_argument("--log-every", type=int, default=100)
    p.add_argument("--out", default="")
    p.add_argument("--seed", type=int, default=11)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    buffer = PrioritisedReplay(args.capacity, N_OBS, args.alpha, 1e-3, rng)
    filler = Greenhouses(2048, rng)
    obs = filler.observe()
    while buffer.size < args.warmup:
        a = rng.integers(0, len(ACTIONS), filler.n)
        nxt, rew, done = filler.step(a)
        buffer.add(obs, a, rew, nxt, done)
        obs = filler.observe()

    env, agent, stats = Greenhouses(args.envs, rng), Agent(args), defaultdict(list)
    obs, began = env.observe(), time.time()
    for update in range(1, args.updates + 1):
        eps = max(0.05, 1 - update / (0.5 * args.updates))
        a = agent.act(obs, eps, rng)
        nxt, rew, done = env.step(a)
        buffer.add(obs, a, rew, nxt, done)
        obs = env.observe()

        beta = args.beta + (1 - args.beta) * update / args.updates
        idx, batch = buffer.sample(args.batch, beta)
        loss, td = agent.learn(*batch)
        buffer.update(idx, td)
        if update % args.target_every == 0:
            agent.target.load_state_dict(agent.q.state_dict())

        stats["loss"].append(loss)
        stats["reward"].append(float(rew.mean()))
        if update % args.log_every == 0:
            recent = {k: float(np.mean(v[-args.log_every:])) for k, v in stats.items()}
            print(f"{update:5d}  eps {eps:.2f}  loss {recent['loss']:.5f}  reward {recent['reward']:+.4f}  "
                  f"{update / (time.time() - began):.1f} upd/s", flush=True)
    if args.out:
        torch.save(agent.q.state_dict(), args.out + ".pt")
        json.dump(stats, open(args.out + ".json", "w"))


if __name__ == "__main__":
    main()
