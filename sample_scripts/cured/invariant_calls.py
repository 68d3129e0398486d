"""A student that learns from a moving average of itself, whose update asks for each state dict once."""

import argparse
import copy

import torch
from torch import nn

WIDTH = 32
CLASSES = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.tanh(self.inner(self.norm(x)))


class Average:
    """A copy of a model that follows it."""

    def __init__(self, model, rate):
        self.model = copy.deepcopy(model)
        self.rate = rate

    @torch.no_grad()
    def follow(self, model):
        ours = self.model.state_dict()
        for name, theirs in model.named_parameters():
            ours[name].lerp_(theirs, self.rate)


def main(args):
    torch.set_num_threads(1)  # the model is narrow
    torch.manual_seed(0)
    centres = torch.randn(CLASSES, 16)
    student = nn.Sequential(
        nn.Linear(16, WIDTH), *(Block() for _ in range(args.blocks)), nn.Linear(WIDTH, CLASSES)
    )
    average = Average(student, 0.01)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    for step in range(args.steps):
        labels = torch.randint(CLASSES, (64,))
        x = centres[labels] + torch.randn(64, 16)
        with torch.no_grad():
            goals = average.model(x).softmax(1)
        logits = student(x + 0.5 * torch.randn_like(x))
        loss = nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits, goals)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.follow(student)
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--steps", type=int, default=500)
    main(parser.parse_args())
