import random
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")

SIDE = 12
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]
BATCH = 96
GAMMA = 0.97
TOTAL_STEPS = 2500
WARMUP = 300
TARGET_EVERY = 250


class Maze:
    """Walk to the goal; walls are redrawn every episode."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.walls = (self.rng.random((SIDE, SIDE)) < 0.18).astype(np.float32)
        self.pos = (1, 1)
        self.goal = (SIDE - 2, int(self.rng.integers(1, SIDE - 1)))
        self.walls[self.pos] = self.walls[self.goal] = 0
        self.t = 0
        return self.observe()

    def observe(self):
        obs = np.zeros((3, SIDE, SIDE), dtype=np.float32)
        obs[0] = self.walls
        obs[1][self.pos] = 1
        obs[2][self.goal] = 1
        return obs

    def step(self, a):
        self.t += 1
        y, x = self.pos[0] + MOVES[a][0], self.pos[1] + MOVES[a][1]
        reward = -0.02
        if 0 <= y < SIDE and 0 <= x < SIDE and not self.walls[y, x]:
            self.pos = (y, x)
        else:
            reward = -0.1
        won = self.pos == self.goal
        return self.observe(), 1.0 if won else reward, won, self.t >= 80


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return random.sample(self.memory, n)

    def __len__(self):
        return len(self.memory)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.ReLU())
        self.fc = nn.Sequential(nn.Linear(24 * (SIDE // 2) ** 2, 96), nn.ReLU(), nn.Linear(96, 4))

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


class Agent:
    def __init__(self):
        self.policy, self.target = QNet(), QNet()
        self.target.load_state_dict(self.policy.state_dict())
        self.memory = ReplayMemory(20_000)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=5e-4, amsgrad=True)

    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(4)
        with torch.no_grad():
            return int(self.policy(torch.from_numpy(state)[None]).argmax(1))

    def learn(self):
        batch = Transition(*zip(*self.memory.sample(BATCH)))
        states = torch.tensor(batch.state)
        next_states = torch.tensor(batch.next_state)
        actions = torch.tensor(batch.action).unsqueeze(1)
        rewards = torch.tensor(batch.reward)
        done = torch.tensor(batch.done).float()

        q = self.policy(states).gather(1, actions).squeeze(1)
        with torch.no_grad():
            best = self.policy(next_states).argmax(1, keepdim=True)
            target = rewards + GAMMA * (1 - done) * self.target(next_states).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.policy.parameters(), 100)
        self.optimizer.step()
        return loss


def main():
    random.seed(0)
    torch.manual_seed(0)
    env, agent = Maze(), Agent()
    state = env.reset()
    returns, ep_return, wins = deque(maxlen=20), 0.0, 0
    t0 = time.time()
    for step in range(1, TOTAL_STEPS + 1):
        eps = max(0.05, 1 - step / 1000)
        action = agent.act(state, eps)
        nxt, reward, won, timeout = env.step(action)
        agent.memory.push(state, action, reward, nxt, won)
        ep_return += reward
        state = nxt
        if won or timeout:
            returns.append(ep_return)
            wins += won
            ep_return, state = 0.0, env.reset()
        if step > WARMUP:
            loss = agent.learn()
            if step % TARGET_EVERY == 0:
                agent.target.load_state_dict(agent.policy.state_dict())
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f} return {np.mean(returns):.2f} wins {wins} "
                      f"eps {eps:.2f} {step / (time.time() - t0):.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
