"""DQN on a small pixel 'catch' game."""
import copy
import random
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 24
EPISODES = 160
BATCH_SIZE = 32
BUFFER_SIZE = 20000
WARMUP = 100
TRAIN_EVERY = 2
TARGET_EVERY = 100
GAMMA = 0.97
LR = 1e-3
EVAL_EVERY = 4
EVAL_EPISODES = 100

Transition = namedtuple("Transition", "state action reward next_state done")


class Catch:
    """Ball falls one row per step; move the paddle (left, stay, right) under it."""

    def reset(self):
        self.row, self.col = 0, random.randrange(SIZE)
        self.drift = random.choice((-1, 0, 1))
        self.paddle = SIZE // 2
        self.last = self._draw()
        return np.stack([self.last, self.last])

    def _draw(self):
        frame = np.zeros((SIZE, SIZE), dtype=np.float32)
        frame[self.row, self.col] = 1.0
        frame[-1, max(0, self.paddle - 2) : self.paddle + 3] = 1.0
        return frame

    def step(self, action):
        self.paddle = min(SIZE - 1, max(0, self.paddle + action - 1))
        self.row += 1
        self.col = (self.col + self.drift) % SIZE if self.row % 3 == 0 else self.col
        done = self.row == SIZE - 1
        reward = -0.1 * abs(self.col - self.paddle) / SIZE
        if done:
            reward = 1.0 if abs(self.col - self.paddle) <= 2 else -1.0
        frame = self._draw()
        state = np.stack([self.last, frame])
        self.last = frame
        return state, reward, done


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        states = torch.from_numpy(np.stack(batch.state))
        actions = torch.tensor(batch.action)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        next_states = torch.from_numpy(np.stack(batch.next_state))
        dones = torch.tensor(batch.done, dtype=torch.float32)
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (SIZE // 4) ** 2, 128),
            nn.ReLU(),
            nn.Linear(128, 3),
        )

    def forward(self, x):
        return self.net(x)


class Agent:
    def __init__(self):
        self.q = QNet()
        self.target = copy.deepcopy(self.q).eval()
        self.opt = torch.optim.Adam(self.q.parameters(), lr=LR)
        self.buffer = ReplayBuffer(BUFFER_SIZE)
        self.updates = 0

    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(3)
        with torch.no_grad():
            return self.q(torch.from_numpy(state).unsqueeze(0)).argmax().item()

    def learn(self):
        s, a, r, s2, d = self.buffer.sample(BATCH_SIZE)
        with torch.no_grad():
            y = r + GAMMA * (1 - d) * self.target(s2).max(1).values
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % TARGET_EVERY == 0:
            self.target.load_state_dict(self.q.state_dict())


def evaluate(agent, episodes):
    env, total = Catch(), 0.0
    for _ in range(episodes):
        state, done = env.reset(), False
        while not done:
            state, reward, done = env.step(agent.act(state, eps=0.0))
            total += reward
    return total / episodes


def main():
    random.seed(3)
    torch.manual_seed(3)
    env, agent = Catch(), Agent()
    start, frames = time.time(), 0
    for episode in range(1, EPISODES + 1):
        eps = max(0.05, 1.0 - 1.5 * episode / EPISODES)
        state, done = env.reset(), False
        while not done:
            action = agent.act(state, eps)
            next_state, reward, done = env.step(action)
            agent.buffer.push(state, action, reward, next_state, done)
            state = next_state
            frames += 1
            if len(agent.buffer) >= WARMUP and frames % TRAIN_EVERY == 0:
                agent.learn()
        if episode % EVAL_EVERY == 0:
            score = evaluate(agent, EVAL_EPISODES)
            print(f"episode {episode:4d}  eps {eps:.2f}  eval {score:+.2f}", flush=True)
    print(f"done: {agent.updates} updates, {frames} frames in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
