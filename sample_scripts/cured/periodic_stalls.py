"""Faces are told apart by distance; now and then, the pairs that are hardest to tell apart are looked for."""

import argparse

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, 32))

    def forward(self, faces):
        return nn.functional.normalize(self.layers(faces), dim=1)


def faces(people, features):
    """Two pictures of each person: the same features with noise."""
    person = torch.randn(people, features)
    return [person + 0.5 * torch.randn_like(person) for _ in range(2)]


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    first, second = faces(args.people, args.features)
    model = Encoder(args.features, args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hardest = torch.arange(args.people)
    for step in range(1, args.steps + 1):
        if step % 200 == 0:
            with torch.no_grad():
                codes = model(torch.cat([first, second]))
            apart = (codes[: args.people] - codes[args.people :]).norm(dim=1)
            hardest = apart.argsort(descending=True)[: args.people // 2]
        chosen = hardest[torch.randint(0, len(hardest), (args.batch_size,))]
        similar = model(first[chosen]) @ model(second[chosen]).T
        loss = nn.functional.cross_entropy(10 * similar, torch.arange(args.batch_size))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--people", type=int, default=4000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    main(parser.parse_args())
