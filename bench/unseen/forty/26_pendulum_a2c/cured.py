"""Advantage actor critic on a vector of pendulums (own physics, batched)."""
import math

import torch
import torch.nn as nn


class Pendulums:
    def __init__(self, n, seed):
        self.n = n
        self.g = torch.Generator().manual_seed(seed)
        self.th = torch.empty(n)
        self.om = torch.empty(n)
        self.reset()

    def reset(self):
        self.th.uniform_(-math.pi, math.pi, generator=self.g)
        self.om.uniform_(-1, 1, generator=self.g)
        return self.obs()

    def obs(self):
        return torch.stack([self.th.cos(), self.th.sin(), self.om / 8], 1)

    def step(self, u):
        u = u.clamp(-2, 2)
        ang = (self.th + math.pi) % (2 * math.pi) - math.pi
        cost = ang**2 + 0.1 * self.om**2 + 0.001 * u**2
        self.om = (self.om + (15 * self.th.sin() + 3 * u) * 0.05).clamp(-8, 8)
        self.th = self.th + self.om * 0.05
        return self.obs(), -cost / 16


class ActorCritic(nn.Module):
    def __init__(self, hidden=320):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                  nn.Linear(hidden, hidden), nn.Tanh())
        self.mu, self.v = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        h = self.body(x)
        return self.mu(h).squeeze(-1), self.v(h).squeeze(-1)


def returns_to_go(rewards, last_value, gamma):
    out = []
    ret = last_value
    for rew in reversed(rewards):
        ret = rew + gamma * ret
        out.append(ret)
    return torch.stack(out[::-1])


def layer_health(model):
    """Condition numbers and effective ranks, to see layers collapse early."""
    report = {}
    for name, p in model.named_parameters():
        if p.dim() == 2 and min(p.shape) > 1:
            s = torch.linalg.svdvals(p.detach())
            prob = s / s.sum()
            report[name] = (s[0] / s[-1]).item(), torch.exp(-(prob * prob.log()).sum()).item()
    return report


def main():
    torch.manual_seed(3)
    env = Pendulums(8, seed=4)
    model = ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=7e-4)
    horizon, gamma = 100, 0.97
    obs = env.reset()
    trace = []
    for update in range(1, 551):
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for _ in range(horizon):
                mu, _ = model(obs)
                act = mu + model.log_std.exp() * torch.randn(mu.shape)
                states.append(obs)
                actions.append(act)
                obs, rew = env.step(act)
                rewards.append(rew)
            last = model(obs)[1]
        target = returns_to_go(rewards, last, gamma)
        mu, value = model(torch.stack(states))
        dist = torch.distributions.Normal(mu, model.log_std.exp(), validate_args=False)
        adv = (target - value).detach()
        policy_loss = -(dist.log_prob(torch.stack(actions)) * adv).mean()
        loss = policy_loss + 0.5 * (target - value).pow(2).mean() - 0.003 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        if update % 25 == 0:
            env.reset()
            trace.append((loss.item(), layer_health(model)))
            worst = max(c for c, _ in trace[-1][1].values())
            print(f"update {update} reward {torch.stack(rewards).mean():.4f} worst condition {worst:.1f}")


if __name__ == "__main__":
    main()
