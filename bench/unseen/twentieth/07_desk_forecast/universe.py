import numpy as np
import torch


def simulate(days, names, seed):
    """Factor returns with regime switching volatility and a weak momentum effect."""
    rng = np.random.default_rng(seed)
    k = 5
    beta = rng.normal(0, 1, (names, k)) / np.sqrt(k)
    vol, r = np.empty(days), np.zeros((days, names))
    state = 0
    mom = np.zeros(names)
    for d in range(days):
        if rng.random() < 0.02:
            state = 1 - state
        vol[d] = (0.7, 1.6)[state]
        f = rng.normal(0, vol[d], k)
        r[d] = beta @ f + rng.normal(0, 0.6, names) + 0.15 * np.tanh(mom)
        mom = 0.9 * mom + 0.1 * r[d]
    return torch.tensor(r, dtype=torch.float32)


class Windows:
    """Batches of (history, next-day returns); every window is a view of the panel."""

    def __init__(self, panel, lookback, first, last):
        self.hist = panel.unfold(0, lookback, 1)
        self.panel, self.lookback = panel, lookback
        self.first, self.last = first, last - lookback

    def batches(self, size, count, seed):
        g = torch.Generator().manual_seed(seed)
        for _ in range(count):
            i = torch.randint(self.first, self.last, (size,), generator=g)
            yield self.hist[i], self.panel[i + self.lookback]

    def ordered(self, size):
        for i in torch.arange(self.first, self.last).split(size):
            yield self.hist[i], self.panel[i + self.lookback]
