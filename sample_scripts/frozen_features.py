"""A classifier on top of a frozen text encoder: the encoder reads the same texts again in every epoch."""

# expect: verdict=compute finding=frozen-features

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def layers(width, count):
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)


class Encoder(nn.Module):
    """Stands for one that was trained on other texts."""

    def __init__(self, words, length, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.1 * torch.randn(length, width))
        self.layers = layers(width, 6)

    def forward(self, texts):
        return self.layers(self.words(texts) + self.places)


class Head(nn.Module):
    def __init__(self, width, topics):
        super().__init__()
        self.layers = layers(width, 1)
        self.topic = nn.Linear(width, topics)

    def forward(self, features):
        return self.topic(self.layers(features).mean(1))


def texts(count, words, length, topics):
    """Texts in which words of their topic are frequent."""
    topic = torch.randint(topics, (count,))
    common = torch.randint(words, (count, length))
    special = topic.unsqueeze(1) + topics * torch.randint(words // topics, (count, length))
    return torch.where(torch.rand(count, length) < 0.2, special, common), topic


def main(epochs, count, batch_size, width):
    torch.manual_seed(0)
    words, length, topics = 2000, 32, 10
    dataset = TensorDataset(*texts(count, words, length, topics))
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    encoder, head = Encoder(words, length, width).eval(), Head(width, topics)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
    judge = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total = 0.0
        for text, topic in loader:
            with torch.no_grad():
                features = encoder(text)  # <- finding
            optimizer.zero_grad()
            loss = judge(head(features), topic)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--texts", type=int, default=1600)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    main(args.epochs, args.texts, args.batch_size, args.width)
