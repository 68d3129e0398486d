"""A small transformer on Python source: a tensor in memory and random offsets into it, no DataLoader."""

# expect: verdict=healthy finding=none

import argparse
import inspect

import torch
from torch import nn


class Transformer(nn.Module):
    def __init__(self, letters, length, width=128, depth=2):
        super().__init__()
        self.token = nn.Embedding(letters, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, tokens):
        return self.head(self.layers(self.token(tokens) + self.place, mask=self.mask, is_causal=True))


class Trainer:
    def __init__(self, text, length, batch_size):
        letters = sorted(set(text))
        self.data = torch.tensor([letters.index(letter) for letter in text])
        self.length, self.batch_size = length, batch_size
        self.model = Transformer(len(letters), length)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def batch(self):
        starts = torch.randint(len(self.data) - self.length - 1, (self.batch_size, 1))
        rows = self.data[starts + torch.arange(self.length + 1)]
        return rows[:, :-1], rows[:, 1:]

    def fit(self, steps):
        for step in range(1, steps + 1):
            x, y = self.batch()
            loss = nn.functional.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=90)
    args = parser.parse_args()
    torch.manual_seed(0)
    Trainer(inspect.getsource(argparse), length=64, batch_size=32).fit(args.steps)
