"""Of what is this the docstring, a class, a function or a module? A transformer reads the standard library's."""

# expect: verdict=compute finding=padded-batches

import argparse
import ast
import pathlib
import re
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = (ast.ClassDef, ast.FunctionDef, ast.Module)
WORDS, PAD = 8192, 0


def docstrings(folder, pattern):
    """The words of every docstring in the files of a folder, and of what kind it is."""
    for path in sorted(folder.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, KINDS) and (text := ast.get_docstring(node)):
                yield re.findall(r"\w+|[^\w\s]", text.lower()), KINDS.index(type(node))


class Docstrings(Dataset):
    """Numbers of words, as many for each text."""

    def __init__(self, texts, length):
        self.texts, self.length = list(texts), length

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        words, kind = self.texts[index]
        numbers = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in words[: self.length]]
        return torch.tensor(numbers + [PAD] * (self.length - len(numbers))), kind  # <- finding


class Reader(nn.Module):
    def __init__(self, length, width=96, depth=2):
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(KINDS))

    def forward(self, texts):
        is_padding = texts == PAD
        x = self.words(texts) + self.places[: texts.shape[1]]
        x = self.layers(x, src_key_padding_mask=is_padding)
        kept = (~is_padding).unsqueeze(-1)
        return self.head((x * kept).sum(1) / kept.sum(1).clamp(min=1))


def train(args):
    texts = docstrings(pathlib.Path(ast.__file__).parent, args.files)
    loader = DataLoader(Docstrings(texts, args.length), args.batch_size, shuffle=True, drop_last=True)
    model = Reader(args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(args.epochs):
        total = 0.0
        for texts, kinds in loader:
            loss = nn.functional.cross_entropy(model(texts), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="*.py")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    torch.manual_seed(0)
    train(parser.parse_args())
