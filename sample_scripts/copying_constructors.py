"""Deep Q-learning on a balancing pole: transitions are kept as arrays and made into tensors one list at a time."""

# expect: verdict=data finding=copying-constructors

import argparse
import collections
import copy
import random

import numpy as np
import torch
from torch import nn

Transition = collections.namedtuple("Transition", "state action reward following done")
FRAMES = 64  # the network sees the last positions and speeds


class Pole:
    """A pole on a cart, by Euler's method."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.angle, self.speed = self.random.uniform(-0.05, 0.05, 2)
        self.history = collections.deque([(0.0, 0.0)] * FRAMES, maxlen=FRAMES)
        return self.look()

    def look(self):
        self.history.append((self.angle, self.speed))
        return np.array(self.history, dtype=np.float32).ravel()

    def step(self, action):
        self.speed += 0.02 * (9.8 * np.sin(self.angle) + (2 * action - 1) * 6)
        self.angle += 0.02 * self.speed
        done = abs(self.angle) > 0.3
        return (self.reset() if done else self.look()), (0.0 if done else 1.0), done


class Agent:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.network = nn.Sequential(nn.Linear(2 * FRAMES, 128), nn.ReLU(), nn.Linear(128, 2))
        self.target = copy.deepcopy(self.network)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3)
        self.memory = collections.deque(maxlen=20_000)

    def act(self, state, explore):
        if random.random() < explore:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.network(torch.from_numpy(state)).argmax())

    def learn(self):
        batch = Transition(*zip(*random.sample(self.memory, self.batch_size)))
        state = torch.tensor(batch.state)  # <- finding
        following = torch.tensor(batch.following)  # <- finding
        action = torch.tensor(batch.action)
        reward = torch.tensor(batch.reward)
        alive = 1 - torch.tensor(batch.done, dtype=torch.float32)
        with torch.no_grad():
            best = reward + 0.99 * alive * self.target(following).amax(1)
        value = self.network(state).gather(1, action[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, best)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def main(steps, batch_size):
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    pole, agent = Pole(0), Agent(batch_size)
    state = pole.reset()
    for step in range(steps + 1000):
        action = agent.act(state, max(0.1, 1 - step / 1000))
        following, reward, done = pole.step(action)
        agent.memory.append(Transition(state, action, reward, following, done))
        state = following
        if step >= 1000:
            loss = agent.learn()
            if step % 100 == 0:
                agent.target.load_state_dict(agent.network.state_dict())
                print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    main(args.steps, args.batch_size)
