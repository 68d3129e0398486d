"""Word vectors by negative sampling; vectors are kept from growing by a largest norm."""

# expect: verdict=compute finding=renormalised-embeddings

import argparse

import torch
from torch import nn
from torch.nn import functional


class WordVectors(nn.Module):
    def __init__(self, words, width, max_norm):
        super().__init__()
        self.words = nn.Embedding(words, width, max_norm=max_norm, sparse=True)
        self.contexts = nn.Embedding(words, width, max_norm=max_norm, sparse=True)  # <- finding

    def forward(self, word, near, others):
        vectors = self.words(word).unsqueeze(1)
        like = (vectors * self.contexts(near).unsqueeze(1)).sum(2)
        unlike = (vectors * self.contexts(others)).sum(2)
        return -functional.logsigmoid(like).mean() - functional.logsigmoid(-unlike).mean()


def batch(args):
    """Words beside those that follow them in a text, and a few others by chance."""
    word = torch.randint(args.words, (args.batch_size,))
    near = (word + torch.randint(1, 4, word.shape)) % args.words
    return word, near, torch.randint(args.words, (args.batch_size, args.others))


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # rows are renormalised on one core anyway
    model = WordVectors(args.words, args.width, 2.0)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=1e-3)
    for step in range(1, args.steps + 1):
        loss = model(*batch(args))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch-size", type=int, default=2_048)
    parser.add_argument("--others", type=int, default=4)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=32)
    main(parser.parse_args())
