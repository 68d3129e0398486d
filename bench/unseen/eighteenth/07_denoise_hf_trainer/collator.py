"""Noising for denoising pre-training: mask some words, misspell others."""
from dataclasses import dataclass, field
from random import Random

import torch

from vocab import Vocab

IGNORE = -100


@dataclass
class DenoisingCollator:
    vocab: Vocab
    mask_rate: float = 0.15
    swap_share: float = 0.3
    keep_share: float = 0.1
    pad_to_multiple_of: int = 8
    seed: int = 0
    rng: Random = field(init=False)

    def __post_init__(self):
        self.rng = Random(self.seed)

    def __call__(self, features):
        rows = [self.corrupt(f["input_ids"]) for f in features]
        width = max(len(ids) for ids, _ in rows)
        width += -width % self.pad_to_multiple_of
        shape = (len(rows), width)
        input_ids = torch.full(shape, self.vocab.pad, dtype=torch.long)
        labels = torch.full(shape, IGNORE, dtype=torch.long)
        for r, (ids, target) in enumerate(rows):
            input_ids[r, : len(ids)] = torch.tensor(ids)
            labels[r, : len(target)] = torch.tensor(target)
        return {"input_ids": input_ids, "attention_mask": (input_ids != self.vocab.pad).long(), "labels": labels}

    def corrupt(self, ids):
        noisy, target = list(ids), [IGNORE] * len(ids)
        for pos, token in enumerate(ids):
            if self.vocab.is_special(token) or self.rng.random() >= self.mask_rate:
                continue
            target[pos] = token
            noisy[pos] = self.replacement(token)
        return noisy, target

    def replacement(self, token):
        dice = self.rng.random()
        if dice < self.keep_share:
            return token
        if dice < self.keep_share + self.swap_share:
            options = self.vocab.neighbours(token)
            return self.rng.choice(options) if options else self.vocab.mask
        return self.vocab.mask
