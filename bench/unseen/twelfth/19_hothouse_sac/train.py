"""Soft actor-critic that runs the actuators of a hothouse (vents, heaters, lamps, misters),
with a prioritised replay memory filled by an earlier controller."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import MultivariateNormal

OBS, ACT = 30, 20


class Hothouse:
    """Many hothouses at once: zones exchange heat and moisture, the weather drifts."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        fixed = np.random.default_rng(42)
        self.mix = fixed.standard_normal((OBS, OBS)).astype(np.float32) * 0.02
        self.drive = fixed.standard_normal((ACT, OBS)).astype(np.float32) * 0.08
        self.cost = (0.02 + 0.03 * fixed.random(ACT)).astype(np.float32)
        self.state = self.rng.standard_normal((n, OBS), dtype=np.float32)

    def step(self, action):
        noise = self.rng.standard_normal(self.state.shape, dtype=np.float32)
        before = self.state
        self.state = 0.95 * before + np.tanh(before @ self.mix + action @ self.drive) + 0.05 * noise
        np.clip(self.state, -5, 5, out=self.state)
        reward = -np.square(self.state[:, :12]).mean(1) - np.square(action) @ self.cost
        return before, action, reward.astype(np.float32), self.state


class PrioritisedReplay:
    def __init__(self, capacity, alpha=0.6):
        self.capacity, self.alpha = capacity, alpha
        self.obs = np.empty((capacity, OBS), np.float32)
        self.act = np.empty((capacity, ACT), np.float32)
        self.rew = np.empty(capacity, np.float32)
        self.nxt = np.empty((capacity, OBS), np.float32)
        self.prios = np.zeros(capacity)
        self.pos, self.size, self.top = 0, 0, 1.0

    def add(self, obs, act, rew, nxt):
        at = (self.pos + np.arange(len(rew))) % self.capacity
        self.obs[at], self.act[at], self.rew[at], self.nxt[at] = obs, act, rew, nxt
        self.prios[at] = self.top
        self.pos = (self.pos + len(rew)) % self.capacity
        self.size = min(self.size + len(rew), self.capacity)

    def sample(self, n, beta):
        probs = self.prios[: self.size] ** self.alpha
        probs /= probs.sum()
        idx = np.random.choice(self.size, n, p=probs)
        weight = (self.size * probs[idx]) ** -beta
        weight = (weight / weight.max()).astype(np.float32)
        batch = (self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], weight)
        return idx, [torch.from_numpy(b) for b in batch]

    def update(self, idx, td):
        self.prios[idx] = td + 1e-3
        self.top = max(self.top, float(td.max()))


def mlp(i, o, width=256):
    return nn.Sequential(nn.Linear(i, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        std = log_std.clamp(-5, 1).exp()
        dist = MultivariateNormal(mean, torch.diag_embed(std ** 2))
        raw = dist.rsample()
        squash = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return torch.tanh(raw), dist.log_prob(raw) - squash.sum(-1)


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.a(x).squeeze(-1), self.b(x).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--replay", type=int, default=500_000)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()

    torch.manual_seed(0)
    np.random.seed(0)
    memory = PrioritisedReplay(args.replay)
    past = Hothouse(1000, seed=1)
    for _ in range(args.replay * 9 // 10 // 1000):         # what the old controller did
        memory.add(*past.step(past.rng.uniform(-1, 1, (1000, ACT)).astype(np.float32)))

    env = Hothouse(8)
    actor, critic, target = Actor(), Twin(), Twin()
    target.load_state_dict(critic.state_dict())
    target.requires_grad_(False)
    log_alpha = torch.tensor(-2.0, requires_grad=True)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=args.lr, fused=True)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=args.lr, fused=True)
    alpha_opt = torch.optim.Adam([log_alpha], lr=args.lr, fused=True)

    t0 = time.time()
    for step in range(1, args.steps + 1):
        with torch.no_grad():
            act, _ = actor(torch.from_numpy(env.state))
        memory.add(*env.step(act.numpy()))

        idx, (obs, act, rew, nxt, weight) = memory.sample(args.batch, 0.4 + 0.6 * step / args.steps)
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            next_act, next_logp = actor(nxt)
            goal = rew + args.gamma * (torch.min(*target(nxt, next_act)) - alpha * next_logp)
        qa, qb = critic(obs, act)
        critic_loss = (weight * ((qa - goal) ** 2 + (qb - goal) ** 2)).mean()
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()
        memory.update(idx, (qa.detach() - goal).abs().numpy())

        critic.requires_grad_(False)
        new_act, logp = actor(obs)
        actor_loss = (alpha * logp - torch.min(*critic(obs, new_act))).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        critic.requires_grad_(True)

        alpha_loss = -log_alpha * (logp.detach().mean() - ACT)
        alpha_opt.zero_grad()
        alpha_loss.backward()
        alpha_opt.step()
        torch._foreach_lerp_(list(target.parameters()), [p.detach() for p in critic.parameters()], 0.005)

        if step % 100 == 0:
            print(f"step {step:5d}  critic {critic_loss.item():.4f}  actor {actor_loss.item():.3f}  "
                  f"alpha {alpha.item():.3f}  {1000 * (time.time() - t0) / step:.1f} ms/step")


if __name__ == "__main__":
    main()
