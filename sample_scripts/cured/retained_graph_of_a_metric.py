"""A character model learns to spell; how far it strays from its first weights is added up along the way."""

import argparse

import torch
from torch import nn

LETTERS = "abcdefghijklmnopqrstuvwxyz "


class Speller(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), size)
        self.recurrent = nn.GRU(size, size, batch_first=True)
        self.next = nn.Linear(size, len(LETTERS))

    def forward(self, text):
        hidden, _ = self.recurrent(self.letters(text))
        return self.next(hidden)


def words(count, length):
    """Texts in which each letter follows from the one before it, most of the time."""
    text = torch.randint(0, len(LETTERS), (count, length))
    for place in range(1, length):
        follows = torch.rand(count) < 0.8
        text[follows, place] = (text[follows, place - 1] * 3 + 1) % len(LETTERS)
    return text


def main(args):
    torch.manual_seed(0)
    model = Speller(args.size)
    first = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    text = words(2048, args.length)
    strayed = torch.zeros(())
    for step in range(1, args.steps + 1):
        batch = text[torch.randint(0, len(text), (args.batch_size,))]
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        distances = [(now - then).pow(2).sum() for now, then in zip(model.parameters(), first)]
        strayed += torch.stack(distances).sum().detach()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}, mean distance {strayed.item() / step:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--size", type=int, default=64)
    main(parser.parse_args())
