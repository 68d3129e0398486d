import numpy as np
import torch
from torch.utils.data import Dataset


class EventLog(Dataset):
    """User sessions: a list of event types with the seconds between them, and an outcome."""

    n_types = 200
    n_labels = 6

    def __init__(self, sessions, seed, shortest=16, longest=320):
        rng = np.random.default_rng(seed)
        raw = rng.lognormal(mean=4.3, sigma=0.8, size=sessions)
        self.lengths = np.clip(raw, shortest, longest).astype(int)
        self.labels = rng.integers(0, self.n_labels, sessions)
        taste = rng.dirichlet(np.full(self.n_types, 0.3), size=self.n_labels)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.events = np.empty(self.offsets[-1], dtype=np.int64)
        self.gaps = rng.exponential(1.0, self.offsets[-1]).astype(np.float32)
        for label in range(self.n_labels):
            rows = np.flatnonzero(self.labels == label)
            draws = rng.choice(self.n_types, size=int(self.lengths[rows].sum()), p=0.5 * taste[label] + 0.5 / self.n_types)
            at = 0
            for r in rows:
                n = self.lengths[r]
                self.events[self.offsets[r] : self.offsets[r] + n] = draws[at : at + n] + 1
                at += n

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        a, b = self.offsets[i], self.offsets[i + 1]
        return self.events[a:b], self.gaps[a:b], int(self.labels[i])


class PadCollate:
    def __init__(self, multiple=8):
        self.multiple = multiple

    def __call__(self, rows):
        width = max(len(e) for e, _, _ in rows)
        width += -width % self.multiple
        events = np.zeros((len(rows), width), dtype=np.int64)
        gaps = np.zeros((len(rows), width), dtype=np.float32)
        for r, (e, g, _) in enumerate(rows):
            events[r, : len(e)] = e
            gaps[r, : len(g)] = g
        labels = torch.tensor([y for _, _, y in rows])
        return torch.from_numpy(events), torch.from_numpy(gaps), labels
