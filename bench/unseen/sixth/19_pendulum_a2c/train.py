"""PPO on a batch of pendulums stepped together as tensors."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal


class Pendulums:
    def __init__(self, n, seed):
        self.n, self.gen = n, torch.Generator().manual_seed(seed)
        self.state = self.fresh()
        self.age = torch.randint(0, 200, (n,), generator=self.gen)

    def fresh(self):
        r = torch.rand(self.n, 2, generator=self.gen) * 2 - 1
        return r * torch.tensor([math.pi, 1.0])

    def observe(self):
        th, thdot = self.state.unbind(1)
        return torch.stack([th.cos(), th.sin(), thdot / 4], 1)

    def step(self, torque):
        th, thdot = self.state.unbind(1)
        u = torque.clamp(-1, 1) * 2
        angle = torch.remainder(th + math.pi, 2 * math.pi) - math.pi
        reward = -(angle ** 2 + 0.1 * thdot ** 2 + 0.001 * u ** 2) / 8
        thdot = (thdot + 0.05 * (15 * th.sin() + 3 * u)).clamp(-8, 8)
        self.state = torch.stack([th + 0.05 * thdot, thdot], 1)
        self.age += 1
        done = self.age >= 200
        self.state = torch.where(done[:, None], self.fresh(), self.state)
        self.age.masked_fill_(done, 0)
        return self.observe(), reward, done.float()


class ActorCritic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                nn.Linear(hidden, 1))
        self.v = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                               nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def policy(self, obs):
        return Normal(self.pi(obs).squeeze(-1).float(), self.log_std.exp(), validate_args=False)

    def value(self, obs):
        return self.v(obs).squeeze(-1).float()


@torch.no_grad()
def rollout(env, model, obs, horizon, gamma, lam):
    buf = {k: [] for k in ("obs", "act", "logp", "rew", "done")}
    for _ in range(horizon):
        dist = model.policy(obs)
        act = dist.sample()
        nxt, rew, done = env.step(act)
        for k, v in zip(buf, (obs, act, dist.log_prob(act), rew, done)):
            buf[k].append(v)
        obs = nxt
    data = {k: torch.stack(v) for k, v in buf.items()}
    values = model.value(torch.cat([data["obs"], obs[None]]))
    adv, gae = torch.empty_like(data["rew"]), torch.zeros_like(data["rew"][0])
    for t in reversed(range(horizon)):
        live = 1 - data["done"][t]
        gae = data["rew"][t] + gamma * live * values[t + 1] - values[t] + gamma * lam * live * gae
        adv[t] = gae
    data["ret"], data["adv"] = adv + values[:-1], (adv - adv.mean()) / (adv.std() + 1e-6)
    return obs, {k: v.flatten(0, 1) for k, v in data.items()}


def update(model, opt, data, epochs, minibatch, clip):
    n = len(data["adv"])
    for _ in range(epochs):
        for idx in torch.randperm(n).split(minibatch):
            obs = data["obs"][idx]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                dist, value = model.policy(obs), model.value(obs)
            adv = data["adv"][idx]
            ratio = (dist.log_prob(data["act"][idx]) - data["logp"][idx]).exp()
            pg = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
            loss = pg + 0.5 * F.mse_loss(value, data["ret"][idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--envs", type=int, default=512)
    ap.add_argument("--horizon", type=int, default=32)
    ap.add_argument("--iterations", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--minibatch", type=int, default=2048)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    torch.manual_seed(4)
    env, model = Pendulums(args.envs, seed=4), ActorCritic(args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    obs, start = env.observe(), time.time()
    for it in range(args.iterations):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            obs, data = rollout(env, model, obs, args.horizon, gamma=0.97, lam=0.95)
        loss = update(model, opt, data, args.epochs, args.minibatch, clip=0.2)
        if it % 8 == 7:
            print(f"iter {it + 1} reward {data['rew'].mean():.3f} loss {loss.item():.4f} "
                  f"({time.time() - start:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
