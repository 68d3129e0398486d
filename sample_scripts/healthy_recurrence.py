"""Sequences of symbols read by a recurrent cell that is written by hand: each turn needs what the last one left."""

# expect: verdict=healthy finding=none

import argparse

import torch
from torch import nn

SYMBOLS = 32


class Reader(nn.Module):
    """A gated cell over an embedding, and what is likely to come next."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, width)
        self.inner = nn.Parameter(torch.randn(width, 2 * width) / width**0.5)
        self.outer = nn.Parameter(torch.randn(width, 2 * width) / width**0.5)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, symbols):
        inputs = self.embed(symbols) @ self.outer
        state = inputs.new_zeros(len(symbols), len(self.inner))
        states = []
        for turn in range(symbols.shape[1]):
            gate, new = (inputs[:, turn] + state @ self.inner).chunk(2, 1)
            state = torch.lerp(state, torch.tanh(new), torch.sigmoid(gate))
            states.append(state)
        return self.head(torch.stack(states, 1))


def sequences(count, length, generator):
    """Symbols that each step on by the one before the last."""
    rows = torch.randint(SYMBOLS, (count, 2), generator=generator)
    for _ in range(length):
        rows = torch.cat([rows, (rows[:, -1:] + rows[:, -2:-1]) % SYMBOLS], 1)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    texts = sequences(16 * args.batch_size, 24, generator)
    model = Reader(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    batches = texts.split(args.batch_size)
    for step in range(args.steps):
        batch = batches[step % len(batches)]
        optimizer.zero_grad()
        likely = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(likely.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
