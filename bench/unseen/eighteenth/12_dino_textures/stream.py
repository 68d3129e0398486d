from functools import partial

import numpy as np
import torch

from views import Sample


class Stream:
    """Endless multi-crop batches: a list with one tensor per view."""

    def __init__(self, shards, recipe, batch, seed):
        self.shards, self.recipe, self.batch = shards, recipe, batch
        self.rng = np.random.default_rng(seed)

    def _one(self, i):
        return self.recipe(Sample(partial(self.shards.read, i)), self.rng)

    def __iter__(self):
        while True:
            order = self.rng.permutation(len(self.shards))
            for k in range(0, len(order) - self.batch + 1, self.batch):
                rows = [self._one(i) for i in order[k:k + self.batch]]
                yield [torch.from_numpy(np.stack(v)) for v in zip(*rows)]
