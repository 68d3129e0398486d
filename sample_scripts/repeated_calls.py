"""Letters to a newspaper by department, in batches made by hand: each epoch cuts the same words into pieces again."""

# expect: verdict=data finding=repeated-calls

import argparse
import random

import torch
from torch import nn

PIECES = 4096  # rows of the embedding
LENGTH = 1200  # pieces of a letter
DEPARTMENTS = 4


def write_letters(count, words_each):
    """Letters, each mostly in the words of its department."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghiklmnoprstuvw", k=draw.randint(4, 9))) for _ in range(1200)]
    letters = []
    for number in range(count):
        own = words[number % DEPARTMENTS :: DEPARTMENTS]
        letters.append(
            " ".join(draw.choice(own if draw.random() < 0.3 else words) for _ in range(words_each))
        )
    return letters


def pieces(letter):
    """The numbers of all pairs and triples of characters, as hashes of them."""
    codes = letter.encode()
    numbers = []
    for first, second, third in zip(codes, codes[1:], codes[2:]):
        numbers += [(first * 37 + second) % PIECES, ((first * 37 + second) * 37 + third) % PIECES]
    return torch.tensor(numbers[:LENGTH] + [0] * (LENGTH - len(numbers)))


def batches(letters, size, epochs):
    for _ in range(epochs):
        order = random.sample(range(len(letters)), len(letters))
        for at in range(0, len(order), size):
            chosen = order[at : at + size]
            rows = [pieces(letters[number]) for number in chosen]  # <- finding
            yield torch.stack(rows), torch.tensor([number % DEPARTMENTS for number in chosen])


def main(args):
    torch.set_num_threads(1)  # the model is small
    torch.manual_seed(0)
    random.seed(0)
    letters = write_letters(args.letters, args.words)
    model = nn.Sequential(nn.EmbeddingBag(PIECES, 8), nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, DEPARTMENTS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (rows, departments) in enumerate(batches(letters, args.batch_size, args.epochs)):
        loss = nn.functional.cross_entropy(model(rows), departments)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=320)
    parser.add_argument("--words", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=60)
    main(parser.parse_args())
