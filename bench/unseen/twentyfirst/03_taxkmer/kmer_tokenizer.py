"""Overlapping k-mer tokenizer for short reads."""
import json
import os
from itertools import product

import numpy as np

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class KmerTokenizer:
    def __init__(self, k=6, stride=1, alphabet="ACGT"):
        self.k = k
        self.stride = stride
        self.tokens = SPECIALS + ["".join(p) for p in product(alphabet, repeat=k)]
        self.pad_token_id = self.tokens.index("[PAD]")
        self.unk_token_id = self.tokens.index("[UNK]")
        self.cls_token_id = self.tokens.index("[CLS]")
        self.sep_token_id = self.tokens.index("[SEP]")

    @property
    def vocab_size(self):
        return len(self.tokens)

    def max_tokens(self, read_length):
        return (read_length - self.k) // self.stride + 3

    def tokenize(self, sequence):
        return [sequence[i : i + self.k] for i in range(0, len(sequence) - self.k + 1, self.stride)]

    def token_to_id(self, token):
        return self.tokens.index(token) if token in self.tokens else self.unk_token_id

    def encode(self, sequence, max_length=None):
        ids = [self.token_to_id(t) for t in self.tokenize(sequence)]
        if max_length is not None:
            ids = ids[: max_length - 2]
        return [self.cls_token_id, *ids, self.sep_token_id]

    def pad(self, encoded):
        """List of id lists -> (ids, mask), padded to the longest read of the batch."""
        width = max(len(e) for e in encoded)
        ids = np.full((len(encoded), width), self.pad_token_id, dtype=np.int64)
        mask = np.zeros((len(encoded), width), dtype=np.int64)
        for row, e in enumerate(encoded):
            ids[row, : len(e)] = e
            mask[row, : len(e)] = 1
        return ids, mask

    def save_pretrained(self, folder, **kwargs):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "kmer_tokenizer.json")
        with open(path, "w") as f:
            json.dump({"k": self.k, "stride": self.stride, "tokens": self.tokens}, f)
        return (path,)
