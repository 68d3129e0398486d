from dataclasses import dataclass

import torch

from kmer_tokenizer import KmerTokenizer


@dataclass
class ReadCollator:
    tokenizer: KmerTokenizer
    max_length: int

    def __call__(self, features):
        encoded = [self.tokenizer.encode(f["sequence"], max_length=self.max_length) for f in features]
        ids, mask = self.tokenizer.pad(encoded)
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "labels": torch.tensor([f["label"] for f in features], dtype=torch.long),
        }
