"""DQN with prioritised replay on a small grid world; the agent has to reach the goal."""
import random
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")


class GridWorld:
    def __init__(self, size=12, seed=0):
        self.size = size
        rng = np.random.default_rng(seed)
        self.walls = rng.random((size, size)) < 0.15
        self.walls[0, 0] = self.walls[-1, -1] = False
        self.reset()

    def reset(self):
        self.pos = (0, 0)
        self.t = 0
        return self.observe()

    def observe(self):
        r, c = self.pos
        n = self.size - 1
        near = [float(self.blocked(r + dr, c + dc)) for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        return np.array([r / n, c / n, (n - r) / n, (n - c) / n] + near, dtype=np.float32)

    def blocked(self, r, c):
        return not (0 <= r < self.size and 0 <= c < self.size) or self.walls[r, c]

    def step(self, action):
        dr, dc = ((0, 1), (1, 0), (0, -1), (-1, 0))[action]
        r, c = self.pos[0] + dr, self.pos[1] + dc
        reward = -0.01
        if self.blocked(r, c):
            reward = -0.05
        else:
            self.pos = (r, c)
        self.t += 1
        done = self.pos == (self.size - 1, self.size - 1)
        if done:
            reward = 1.0
        return self.observe(), reward, done or self.t >= 200


class PrioritisedMemory:
    def __init__(self, capacity, alpha=0.6):
        self.capacity, self.alpha = capacity, alpha
        self.memory = []
        self.priorities = np.zeros(capacity)
        self.pos = 0

    def push(self, *args):
        top = self.max_priority if self.memory else 1.0
        if len(self.memory) < self.capacity:
            self.memory.append(Transition(*args))
            self.priorities[self.pos] = top ** self.alpha
        else:
            self.memory[self.pos] = Transition(*args)
            self.priorities[self.pos] = top ** self.alpha
        self.pos = (self.pos + 1) % self.capacity

    max_priority = 1.0

    def sample(self, batch_size):
        total = np.cumsum(self.priorities[:len(self.memory)])
        idx = np.searchsorted(total, np.random.rand(batch_size) * total[-1])
        idx = np.minimum(idx, len(self.memory) - 1)
        return idx, [self.memory[i] for i in idx]

    def update(self, idx, errors):
        for i, e in zip(idx, errors):
            self.priorities[i] = (e + 1e-3) ** self.alpha
            self.max_priority = max(self.max_priority, e + 1e-3)


class QNet(nn.Module):
    def __init__(self, n_obs=8, n_actions=4, hidden=320):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_actions)
        )

    def forward(self, x):
        return self.net(x)


class Agent:
    def __init__(self, gamma=0.98, lr=5e-4, tau=0.01):
        self.policy, self.target = QNet(), QNet()
        self.target.load_state_dict(self.policy.state_dict())
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.gamma, self.tau = gamma, tau

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(4)
        return int(self.policy(torch.from_numpy(obs)).argmax())

    def learn(self, batch):
        s = torch.from_numpy(np.stack([t.state for t in batch]))
        a = torch.tensor([t.action for t in batch])
        r = torch.tensor([t.reward for t in batch])
        s2 = torch.from_numpy(np.stack([t.next_state for t in batch]))
        d = torch.tensor([float(t.done) for t in batch])
        q = self.policy(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.target(s2).max(1).values
        target = r + self.gamma * (1 - d) * best
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, tp in zip(self.policy.parameters(), self.target.parameters()):
                tp.lerp_(p, self.tau)
        return loss.item(), (q - target).abs().tolist()


def main():
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    env, agent = GridWorld(), Agent()
    memory = PrioritisedMemory(100_000)
    obs = env.reset()
    for _ in range(100_000):
        action = random.randrange(4)
        nxt, reward, done = env.step(action)
        memory.push(obs, action, reward, nxt, done)
        obs = env.reset() if done else nxt

    score, finished = 0.0, 0
    obs = env.reset()
    for step in range(1, 4001):
        eps = max(0.05, 1.0 - step / 2500)
        for _ in range(2):
            action = agent.act(obs, eps)
            nxt, reward, done = env.step(action)
            memory.push(obs, action, reward, nxt, done)
            score += reward
            finished += done
            obs = env.reset() if done else nxt
        idx, batch = memory.sample(128)
        loss, errors = agent.learn(batch)
        memory.update(idx, errors)
        if step % 500 == 0:
            print(f"step {step} episodes {finished} score {score:.2f} loss {loss:.5f}")


if __name__ == "__main__":
    main()
