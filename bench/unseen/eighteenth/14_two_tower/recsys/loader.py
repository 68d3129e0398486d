from bisect import bisect_left

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .features.store import FeatureStore
from .negatives import PopularitySampler


class Interactions(Dataset):
    def __init__(self, catalog, cfg):
        self.catalog, self.cfg = catalog, cfg
        self.store = FeatureStore(catalog, cfg)
        self.sampler = PopularitySampler(catalog, cfg.popularity)
        self.rng = np.random.default_rng(cfg.seed + 1)
        self.rows = [e for e in catalog.events if catalog.past[e.user][0][0] < e.when]

    def __len__(self):
        return len(self.rows)

    def _history(self, user, when):
        past = self.catalog.past[user]
        end = bisect_left(past, (when, -1))
        ids = [i for _, i in past[max(0, end - self.cfg.history):end]]
        out = np.full(self.cfg.history, -1, np.int64)
        out[:len(ids)] = ids
        return out

    def __getitem__(self, k):
        e = self.rows[k]
        ids = [e.item] + self.sampler.draw(e.user, self.cfg.negatives, self.rng)
        return {"history": self._history(e.user, e.when), "items": self.store.items(ids, e.when)}


def collate(rows):
    return {k: torch.from_numpy(np.stack([r[k] for r in rows])) for k in rows[0]}


def build_loader(catalog, cfg):
    gen = torch.Generator().manual_seed(cfg.seed)
    return DataLoader(Interactions(catalog, cfg), cfg.batch, shuffle=True, drop_last=True,
                      num_workers=cfg.workers, persistent_workers=cfg.workers > 0,
                      collate_fn=collate, generator=gen)
