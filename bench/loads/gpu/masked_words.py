"""An encoder guesses words that were hidden from it, one in seven."""

# expect: verdict=compute finding=ignored-targets

import common
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

IGNORED, HIDDEN, SHARE = -100, 1, 0.15


class Corpus(Dataset):
    """Pieces of a long text."""

    def __init__(self, words, length):
        self.length = length
        self.text = np.random.default_rng(0).integers(2, words, 1 << 24)

    def __len__(self):
        return len(self.text) // self.length

    def __getitem__(self, index):
        return self.text[index * self.length : (index + 1) * self.length]


def hide_words(pieces):
    """(Pieces of which some words are hidden, those words where they were)."""
    words = torch.from_numpy(np.stack(pieces))
    hidden = torch.rand(words.shape) < SHARE
    return words.masked_fill(hidden, HIDDEN), words.masked_fill(~hidden, IGNORED)


class MaskedModel(nn.Module):
    def __init__(self, words, length, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.guess = nn.Linear(width, words)
        self.guess.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, words, wanted):
        hidden = self.encoder(self.words(words) + self.places)
        return self.score(hidden.flatten(0, 1), wanted.flatten())

    def score(self, hidden, wanted):
        """The loss over the words that were hidden."""
        guesses = self.guess(hidden)  # <- finding
        # cured: guesses, wanted = self.guess(hidden[wanted != IGNORED]), wanted[wanted != IGNORED]
        return nn.functional.cross_entropy(guesses.float(), wanted, ignore_index=IGNORED)  # <- finding


def warmed_up(optimizer, steps=100):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))


def main():
    args = common.arguments()
    words, size, length = common.sized(args, (50_048, 64, 256), (500, 4, 16))
    width, heads, layers = common.sized(args, (768, 12, 4), (32, 2, 1))
    on_device = args.device == "cuda"
    loader = DataLoader(
        Corpus(words, length), size, shuffle=True, collate_fn=hide_words, num_workers=4 if on_device else 1,
        pin_memory=on_device, drop_last=True, persistent_workers=True,
    )  # fmt: skip
    with torch.device(args.device):
        model = MaskedModel(words, length, width, heads, layers).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    scheduler = warmed_up(optimizer)
    losses = []
    batches = zip(common.steps(args, losses, size), common.endless(loader), strict=False)
    for _, (pieces, wanted) in batches:
        loss = model(pieces.to(args.device, non_blocking=True), wanted.to(args.device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())


if __name__ == "__main__":
    main()
