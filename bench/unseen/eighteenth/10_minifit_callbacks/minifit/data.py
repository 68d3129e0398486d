"""Rendered glyphs: ten seven-segment shapes, shifted, scaled in contrast and dirtied with noise."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
BOXES = {  # row slice, column slice on a 20x12 canvas
    "a": (slice(0, 3), slice(0, 12)), "g": (slice(9, 12), slice(0, 12)), "d": (slice(17, 20), slice(0, 12)),
    "f": (slice(0, 11), slice(0, 3)), "b": (slice(0, 11), slice(9, 12)),
    "e": (slice(9, 20), slice(0, 3)), "c": (slice(9, 20), slice(9, 12)),
}


def templates():
    out = torch.zeros(10, 20, 12)
    for digit, names in enumerate(SEGMENTS):
        for s in names:
            rows, cols = BOXES[s]
            out[digit, rows, cols] = 1.0
    return F.pad(out, (10, 10, 6, 6))


def render(count, generator):
    base = templates()
    labels = torch.randint(0, 10, (count,), generator=generator)
    dx, dy = torch.randint(-5, 6, (2, count), generator=generator)
    images = torch.empty(count, 1, 32, 32)
    for i, (k, x, y) in enumerate(zip(labels.tolist(), dx.tolist(), dy.tolist())):
        images[i, 0] = base[k].roll((y, x), (0, 1))
    contrast = 0.4 + 0.6 * torch.rand(count, 1, 1, 1, generator=generator)
    return images * contrast + 0.35 * torch.randn(images.shape, generator=generator), labels


class Glyphs(Dataset):
    def __init__(self, count, seed, jitter):
        self.images, self.labels = render(count, torch.Generator().manual_seed(seed))
        self.jitter = jitter

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.images[i]
        if self.jitter and i % 2:
            x = -x
        return x, self.labels[i]


@dataclass
class Loaders:
    train: DataLoader
    valid: DataLoader


def glyph_loaders(bs, seed, n_train=9600, n_valid=960):
    order = torch.Generator().manual_seed(seed)
    return Loaders(
        DataLoader(Glyphs(n_train, seed, True), batch_size=bs, shuffle=True, drop_last=True, num_workers=0, generator=order),
        DataLoader(Glyphs(n_valid, seed + 1, False), batch_size=2 * bs, num_workers=0),
    )
