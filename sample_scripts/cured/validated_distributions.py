"""An agent, whose actions are not checked, plays an episode, state by state, and then learns from it."""

import argparse
import math
import random

import torch
from torch import nn
from torch.distributions import Categorical


class Pole:
    """A pole on a cart, which is pushed to the left or to the right."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        place, speed, angle, turning = self.state
        sine, cosine = math.sin(angle), math.cos(angle)
        pushed = ((10.0 if action else -10.0) + 0.05 * turning**2 * sine) / 1.1
        turned = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        moved = pushed - 0.05 * turned * cosine / 1.1
        self.state = [
            place + 0.02 * speed,
            speed + 0.02 * moved,
            angle + 0.02 * turning,
            turning + 0.02 * turned,
        ]
        return self.state, abs(self.state[2]) > 0.21 or abs(self.state[0]) > 2.4


class Agent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, state):
        hidden = self.body(state)
        return self.actor(hidden), self.critic(hidden)


def play(agent, pole, turns):
    """So many turns, in one episode after the other: rewards to come, chances of the actions, and values."""
    chances, values, fallen = [], [], []
    state = pole.reset()
    for _ in range(turns):
        logits, value = agent(torch.tensor(state))
        policy = Categorical(logits=logits, validate_args=False)
        action = policy.sample()
        chances.append(policy.log_prob(action))
        values.append(value)
        state, fell = pole.step(action.item())
        fallen.append(fell)
        if fell:
            state = pole.reset()
    rewards, to_come = [], 0.0
    for fell in reversed(fallen):
        to_come = 1.0 + (0.0 if fell else 0.97 * to_come)
        rewards.append(to_come)
    return torch.tensor(rewards[::-1]), torch.stack(chances), torch.cat(values), sum(fallen)


def main(updates, turns, width):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # single states: more threads would wait for each other
    agent, pole = Agent(width), Pole(0)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
    for update in range(updates):
        rewards, chances, values, falls = play(agent, pole, turns)
        better = rewards - values
        loss = -(chances * better.detach()).mean() + 0.1 * better.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 50 == 0:
            print(f"update {update}: {falls} falls, loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--width", type=int, default=128)
    args = parser.parse_args()
    main(args.updates, args.turns, args.width)
