from __future__ import annotations

import torch
from torch.utils.data import Dataset

from specimens import SpecimenSet


class SpecimenDataset(Dataset):
    """Hands out rows of the in-memory set; whole batches go through ``__getitems__``."""

    def __init__(self, specimens: SpecimenSet):
        self.images = specimens.images
        self.taxon = specimens.taxon

    def __len__(self) -> int:
        return len(self.taxon)

    def __getitem__(self, index: int) -> dict:
        return {"pixel_values": self.images[index], "labels": self.taxon[index]}

    def __getitems__(self, indices: list[int]) -> dict:
        rows = torch.as_tensor(indices)
        return {"pixel_values": self.images[rows], "labels": self.taxon[rows]}


class SpecimenCollator:
    """Flips and jitters the illumination of a batch, then scales it to [-1, 1]."""

    def __init__(self, augment: bool, seed: int = 0):
        self.augment = augment
        self.generator = torch.Generator().manual_seed(seed)

    def _stack(self, examples) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(examples, dict):
            return examples["pixel_values"], examples["labels"]
        return (
            torch.stack([e["pixel_values"] for e in examples]),
            torch.stack([e["labels"] for e in examples]),
        )

    def __call__(self, examples) -> dict[str, torch.Tensor]:
        raw, labels = self._stack(examples)
        pixels = raw.to(torch.float32).div_(127.5).sub_(1.0)
        if self.augment:
            coin = torch.rand(len(pixels), 2, 1, 1, 1, generator=self.generator) < 0.5
            pixels = torch.where(coin[:, 0], pixels.flip(-1), pixels)
            pixels = torch.where(coin[:, 1], pixels.flip(-2), pixels)
            gain = torch.empty(len(pixels), 1, 1, 1).uniform_(0.9, 1.1, generator=self.generator)
            pixels = pixels * gain
        return {"pixel_values": pixels, "labels": labels}
