"""Ratings of films predicted from two tables of vectors, one for viewers and one for films."""

# expect: verdict=compute finding=zeroed-gradients

import argparse

import torch
from torch import nn


class Ratings:
    """Invented ratings: each viewer and each film has a hidden taste of three numbers."""

    def __init__(self, viewers, films):
        random = torch.Generator().manual_seed(0)
        self.viewer_taste = torch.randn(viewers, 3, generator=random)
        self.film_taste = torch.randn(films, 3, generator=random)
        self.random = random

    def sample(self, count):
        viewer = torch.randint(len(self.viewer_taste), (count,), generator=self.random)
        film = torch.randint(len(self.film_taste), (count,), generator=self.random)
        return viewer, film, (self.viewer_taste[viewer] * self.film_taste[film]).sum(1)


class Factorisation(nn.Module):
    def __init__(self, viewers, films, width):
        super().__init__()
        self.viewers = nn.Embedding(viewers, width)
        self.films = nn.Embedding(films, width)
        self.viewer_bias = nn.Embedding(viewers, 1)
        self.film_bias = nn.Embedding(films, 1)

    def forward(self, viewer, film):
        match = (self.viewers(viewer) * self.films(film)).sum(1)
        return match + self.viewer_bias(viewer).squeeze(1) + self.film_bias(film).squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=80_000)
    parser.add_argument("--films", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()

    torch.manual_seed(0)
    ratings = Ratings(args.viewers, args.films)
    model = Factorisation(args.viewers, args.films, width=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(args.steps):
        viewer, film, rating = ratings.sample(args.batch_size)
        loss = nn.functional.mse_loss(model(viewer, film), rating)
        optimizer.zero_grad(set_to_none=False)  # <- finding
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: squared error {loss.item():.3f}")


if __name__ == "__main__":
    main()
