import numpy as np


class PopularitySampler:
    """Items drawn by count ** power, never one that the user has bought."""

    def __init__(self, catalog, power, chunk=4096):
        weights = (catalog.counts + 1) ** power
        self.cdf = np.cumsum(weights / weights.sum())
        self.bought = [frozenset(i for _, i in rows) for rows in catalog.past]
        self.chunk, self.pool, self.at = chunk, None, 0

    def _next(self, rng):
        if self.pool is None or self.at == len(self.pool):
            self.pool = np.searchsorted(self.cdf, rng.random(self.chunk)).clip(max=len(self.cdf) - 1).tolist()
            self.at = 0
        self.at += 1
        return self.pool[self.at - 1]

    def draw(self, user, k, rng):
        out = []
        while len(out) < k:
            item = self._next(rng)
            if item not in self.bought[user]:
                out.append(item)
        return out
