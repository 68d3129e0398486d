"""A tagger of words with a large table of embeddings; the best weights so far are copied in every step."""

# expect: verdict=host finding=large-copies-every-step

import argparse
import copy

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.EmbeddingBag(words, width, sparse=True)
        self.classify = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, 20))

    def forward(self, texts):
        return self.classify(self.embed(texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--words", type=int, default=60_000)
    args = parser.parse_args()

    torch.manual_seed(0)
    texts = torch.randint(args.words, (16, args.batch_size, 30))
    tags = texts.sum(2) % 20
    model = Tagger(args.words, width=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lowest, best = float("inf"), None
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(texts[step % 16]), tags[step % 16])
        loss.backward()
        optimizer.step()
        latest = copy.deepcopy(model.state_dict())  # <- finding
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
            if loss.item() < lowest:
                lowest, best = loss.item(), latest
    model.load_state_dict(best)


if __name__ == "__main__":
    main()
