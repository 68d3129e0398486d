"""A model fills in masked words: one word in seven is masked, and all words are guessed."""

# expect: verdict=compute finding=ignored-targets

import argparse

import torch
from torch import nn
from torch.nn import functional

IGNORED = -100


class Words(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, masked, labels):
        hidden, _ = self.encoder(self.table(masked))
        scores = self.head(hidden)  # <- finding
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def batch(args):
    """Texts in which words follow each other, some of them masked by 0."""
    begin = torch.randint(1, args.words, (args.batch_size, 1))
    text = 1 + (begin + torch.arange(args.length)) % (args.words - 1)
    hidden = torch.rand(text.shape) < 0.15
    return text.masked_fill(hidden, 0), text.masked_fill(~hidden, IGNORED)


def main(args):
    torch.manual_seed(0)
    model = Words(args.words, 96)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(1, args.steps + 1):
        masked, labels = batch(args)
        loss = model(masked, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--words", type=int, default=4_000)
    main(parser.parse_args())
