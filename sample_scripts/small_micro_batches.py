"""Sequences are classified two at a time, and sixteen such micro-batches make one update."""

# expect: verdict=compute finding=small-micro-batches

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.table = nn.Embedding(100, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.encoder(self.table(tokens)).mean(1))


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokens = torch.randint(100, (args.samples, 12))
    data = TensorDataset(tokens, (tokens.sum(1) % 2))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)  # <- finding
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(args.epochs):
        total = 0.0
        for number, (x, y) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(x), y) / args.accumulate
            loss.backward()
            if number % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item()
        print(f"epoch {epoch}: loss {total:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=960)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=16)
    main(parser.parse_args())
