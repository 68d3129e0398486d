"""A made-up shop: titled items in clusters, users that prefer a few clusters, timestamped purchases."""
from collections import namedtuple

import numpy as np

Event = namedtuple("Event", "user item when")


class Catalog:
    def __init__(self, cfg):
        rng = np.random.default_rng(cfg.seed)
        themes = 40
        letters = list("abcdefghiklmnoprstuvw")
        words = ["".join(rng.choice(letters, rng.integers(4, 9))) for _ in range(1200)]
        pools = rng.integers(0, len(words), (themes, 30))
        self.theme = rng.integers(0, themes, cfg.items)
        self.titles = [" ".join(words[w] for w in rng.choice(pools[t], 16)) for t in self.theme]
        self.price = rng.lognormal(2.5, 0.8, cfg.items)
        self.age = rng.uniform(0, 400, cfg.items)
        by_theme = [np.flatnonzero(self.theme == t) for t in range(themes)]
        taste = rng.integers(0, themes, (cfg.users, 3))
        users = rng.integers(0, cfg.users, cfg.interactions)
        when = np.sort(rng.uniform(0, 1e6, cfg.interactions))
        self.events, self.past = [], [[] for _ in range(cfg.users)]
        self.counts = np.zeros(cfg.items)
        for u, w in zip(users, when):
            pool = by_theme[taste[u, rng.integers(3)]]
            item = int(pool[int(len(pool) * rng.random() ** 2)])
            self.events.append(Event(int(u), item, float(w)))
            self.past[u].append((float(w), item))
            self.counts[item] += 1
        self.rating = 3 + rng.normal(0, 0.5, cfg.items)
