"""Users rate films: both are looked up in tables, and most rows of a table are not in the batch."""

import argparse

import torch
from torch import nn


class Ratings(nn.Module):
    def __init__(self, users, films, width):
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.films = nn.Embedding(films, width)
        self.score = nn.Sequential(nn.Linear(2 * width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, film):
        return self.score(torch.cat([self.users(user), self.films(film)], dim=1)).squeeze(1)


def batch(args):
    """Who rates what, and how: some users like the films with even numbers."""
    user = torch.randint(args.users, (args.batch_size,))
    film = torch.randint(args.films, (args.batch_size,))
    return user, film, ((user + film) % 2).float()


def main(args):
    torch.manual_seed(0)
    model = Ratings(args.users, args.films, 16)
    rest = [*model.films.parameters(), *model.score.parameters()]
    optimizer = torch.optim.Adam(rest, lr=1e-3)
    sparse = torch.optim.SparseAdam(model.users.parameters(), lr=1e-3)
    for step in range(1, args.steps + 1):
        user, film, rating = batch(args)
        loss = nn.functional.binary_cross_entropy_with_logits(model(user, film), rating)
        optimizer.zero_grad()
        sparse.zero_grad()
        loss.backward()
        optimizer.step()
        sparse.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--users", type=int, default=300_000)
    parser.add_argument("--films", type=int, default=5_000)
    main(parser.parse_args())
