"""Batches of similar length, so that little is spent on padding."""
import numpy as np
from torch.utils.data import Sampler


class LengthGroupedBatches(Sampler):
    """Shuffles all sessions, cuts them into chunks, orders each chunk by length and
    forms the batches of every rank inside it. All ranks see equally many batches.

    chunk_batches: batches per rank in one chunk.
    """

    def __init__(self, lengths, batch_size, rank, world_size, seed=0, chunk_batches=16):
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.rank, self.world_size = rank, world_size
        self.seed = seed
        self.chunk_batches = chunk_batches
        self.epoch = 0

    @property
    def chunk_size(self):
        return self.batch_size * self.chunk_batches * self.world_size

    def __len__(self):
        return (len(self.lengths) // self.chunk_size) * self.chunk_batches

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _chunks(self, rng):
        order = rng.permutation(len(self.lengths))
        for start in range(0, len(order) - self.chunk_size + 1, self.chunk_size):
            chunk = order[start : start + self.chunk_size]
            yield chunk[np.argsort(-self.lengths[chunk], kind="stable")]

    def _share(self, chunk):
        """This rank's batches of a chunk, as rows of an array."""
        batches = chunk.reshape(-1, self.batch_size)
        return batches.reshape(self.world_size, self.chunk_batches, self.batch_size)[self.rank]

    def __iter__(self):
        rng = np.random.default_rng((self.seed, self.epoch))
        for chunk in self._chunks(rng):
            mine = self._share(chunk)
            for row in rng.permutation(self.chunk_batches):
                yield mine[row].tolist()
