"""Reviews are told good from bad by the pairs of letters in them, which are counted before training begins."""

import argparse
import random

import torch
from torch import nn

LETTERS = "abcdefghijklmnopqrstuvwxyz "
PAIRS = {
    first + second: len(LETTERS) * i + j
    for i, first in enumerate(LETTERS)
    for j, second in enumerate(LETTERS)
}


def reviews(count, length):
    """Random texts; in the good ones, one pair of letters is frequent."""
    draw = random.Random(0)
    good = [draw.random() < 0.5 for _ in range(count)]
    return [
        "".join("ok" if liked and draw.random() < 0.1 else draw.choice(LETTERS) for _ in range(length))
        for liked in good
    ], torch.tensor(good, dtype=torch.float32)


def count_pairs(texts):
    counts = torch.zeros(len(texts), len(PAIRS))
    for row, text in enumerate(texts):
        letters = torch.tensor([LETTERS.index(letter) for letter in text])
        counts[row] = torch.bincount(letters[:-1] * len(LETTERS) + letters[1:], minlength=len(PAIRS))
    return counts


def main(args):
    torch.manual_seed(0)
    texts, liked = reviews(args.reviews, args.length)
    counts = count_pairs(texts)
    model = nn.Sequential(nn.Linear(len(PAIRS), args.width), nn.ReLU(), nn.Linear(args.width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1, args.steps + 1):
        chosen = torch.randint(0, len(counts), (args.batch_size,))
        loss = nn.functional.binary_cross_entropy_with_logits(model(counts[chosen]).squeeze(1), liked[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--reviews", type=int, default=8_000)
    parser.add_argument("--length", type=int, default=400)
    parser.add_argument("--width", type=int, default=512)
    main(parser.parse_args())
