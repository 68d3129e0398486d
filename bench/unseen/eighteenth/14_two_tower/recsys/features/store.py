from functools import partial

import numpy as np

from .cache import LruCache
from .text import hashed


class FeatureStore:
    """Item vectors: hashed title followed by scaled numbers."""

    def __init__(self, catalog, cfg):
        self.catalog, self.dim = catalog, cfg.text_dim
        self.cache = LruCache(cfg.cache_rows)
        self.log_price = np.log(catalog.price)
        self.price_mean, self.price_std = self.log_price.mean(), self.log_price.std()

    def _key(self, item, when):
        return (int(item), when)

    def _build(self, item):
        c = self.catalog
        numbers = np.array([(self.log_price[item] - self.price_mean) / self.price_std,
                            c.age[item] / 400 - 0.5, c.rating[item] - 3,
                            np.log1p(c.counts[item]) / 4], np.float32)
        return np.concatenate([hashed(c.titles[item], self.dim), numbers])

    def item(self, item, when):
        return self.cache.get_or(self._key(item, when), partial(self._build, item))

    def items(self, ids, when):
        return np.stack([self.item(i, when) for i in ids])
