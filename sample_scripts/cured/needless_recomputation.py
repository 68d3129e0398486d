"""A language model over the letters of Python's own source."""

import argparse
import inspect

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Letters(Dataset):
    """Pieces of a text; each letter is to be told from those before it."""

    def __init__(self, text, length, count):
        self.letters = torch.tensor(list(text.encode("ascii", "replace")))
        self.length, self.count = length, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        start = index * 977 % (len(self.letters) - self.length - 1)
        piece = self.letters[start : start + self.length + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm_of_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden):
        batch, length, width = hidden.shape
        shape = batch, length, self.heads, width // self.heads
        query, key, value = (
            part.view(shape).transpose(1, 2) for part in self.project(self.norm(hidden)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(hidden.shape))
        return hidden + self.mlp(self.norm_of_mlp(hidden))


class LanguageModel(nn.Module):
    def __init__(self, length, width, depth):
        super().__init__()
        self.letters, self.places = nn.Embedding(128, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.head = nn.Linear(width, 128)

    def forward(self, letters):
        hidden = self.letters(letters) + self.places
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    text = inspect.getsource(argparse) + inspect.getsource(inspect)
    loader = DataLoader(Letters(text, args.length, args.steps * args.batch_size), args.batch_size)
    model = LanguageModel(args.length, args.width, args.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step, (letters, following) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(letters).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
