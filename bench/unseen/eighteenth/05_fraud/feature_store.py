"""Column-wise feature store: transactions plus card and merchant aggregates, joined by key."""
import numpy as np
import torch

CATEGORICAL = {"channel": 4, "country": 30, "mcc": 60, "hour": 24, "weekday": 7, "device": 12}
NUMERIC = ("amount", "gap", "card_mean", "card_std", "card_count", "merchant_mean", "merchant_risk", "ratio")


class EntityTable:
    """Aggregates of one key, computed once over the history window."""

    def __init__(self, key, count, amount, fraud):
        self.n = np.bincount(key, minlength=count).astype(np.float32)
        total = np.bincount(key, amount, count)
        square = np.bincount(key, amount ** 2, count)
        self.mean = (total / np.maximum(self.n, 1)).astype(np.float32)
        self.std = np.sqrt(np.maximum(square / np.maximum(self.n, 1) - self.mean ** 2, 0)).astype(np.float32)
        self.risk = ((np.bincount(key, fraud, count) + 1) / (self.n + 20)).astype(np.float32)


class FeatureStore:
    def __init__(self, rows, cards, merchants, seed):
        rng = np.random.default_rng(seed)
        self.rows, history = rows, rows // 3
        card, merchant = rng.integers(cards, size=rows), rng.integers(merchants, size=rows)
        cols = {name: rng.integers(size, size=rows) for name, size in CATEGORICAL.items()}
        amount = rng.lognormal(3, 1, rows).astype(np.float32)
        gap = rng.exponential(1.0, rows).astype(np.float32)
        logit = 0.9 * np.log(amount) - 1.2 * gap + (cols["hour"] < 5) + (cols["country"] % 7 == 0) - 4.2
        self.label = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        by_card = EntityTable(card[:history], cards, amount[:history], self.label[:history])
        by_merchant = EntityTable(merchant[:history], merchants, amount[:history], self.label[:history])
        self.columns = dict(cols)
        numeric = {
            "amount": np.log1p(amount), "gap": gap,
            "card_mean": np.log1p(by_card.mean)[card], "card_std": np.log1p(by_card.std)[card],
            "card_count": by_card.n[card], "merchant_mean": np.log1p(by_merchant.mean)[merchant],
            "merchant_risk": by_merchant.risk[merchant], "ratio": amount / (by_card.mean[card] + 1),
        }
        for name in NUMERIC:
            v = numeric[name]
            self.columns[name] = ((v - v.mean()) / (v.std() + 1e-6)).astype(np.float32)
        self.splits = {"train": np.arange(history, rows - 3000), "valid": np.arange(rows - 3000, rows)}

    def fetch(self, ids):
        batch = {}
        for name in CATEGORICAL:
            batch[name] = torch.from_numpy(self.columns[name][ids])
        for name in NUMERIC:
            batch[name] = torch.from_numpy(self.columns[name][ids])
        return batch, torch.from_numpy(self.label[ids])

    def stream(self, split, size, seed):
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(self.splits[split])
            for i in range(0, len(order) - size + 1, size):
                yield self.fetch(order[i:i + size])

    def sweep(self, split, size):
        ids = self.splits[split]
        for i in range(0, len(ids), size):
            yield self.fetch(ids[i:i + size])
