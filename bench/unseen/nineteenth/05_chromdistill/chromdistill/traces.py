"""Simulated GC traces: exponentially modified Gaussian peaks over column bleed."""
import numpy as np
import torch
from scipy.special import erfcx
from torch.utils.data import DataLoader, Dataset


def emg(t, height, centre, sigma, tau):
    z = (sigma / tau - (t - centre) / sigma) / np.sqrt(2.0)
    gauss = np.exp(-0.5 * ((t - centre) / sigma) ** 2)
    return height * sigma / tau * np.sqrt(np.pi / 2) * gauss * erfcx(np.clip(z, -5.0, 50.0))


class ChromatogramSet(Dataset):
    """Traces of mixtures from four feedstock families; the family is kept for probing."""

    FAMILIES = 4

    def __init__(self, n_traces, length, n_components, saturation, seed):
        rng = np.random.default_rng(seed)
        t = np.linspace(0.0, 1.0, length, dtype=np.float64)
        centres = np.sort(rng.uniform(0.05, 0.95, n_components))
        profiles = rng.gamma(0.7, 1.0, (self.FAMILIES, n_components))
        self.family = rng.integers(0, self.FAMILIES, n_traces)
        amounts = profiles[self.family] * rng.lognormal(0.0, 0.5, (n_traces, n_components))
        drift = rng.normal(0.0, 0.004, (n_traces, 1))
        width = rng.uniform(0.004, 0.009, (n_traces, n_components))
        traces = np.zeros((n_traces, length), dtype=np.float32)
        for k in range(n_components):
            centre = centres[k] + drift
            traces += emg(t, amounts[:, k:k + 1], centre, width[:, k:k + 1], 0.006).astype(np.float32)
        bleed = rng.uniform(0.02, 0.1, (n_traces, 1)) * np.exp(2.0 * (t - 0.5))
        traces += bleed.astype(np.float32)
        traces = np.minimum(traces, saturation * traces.max(axis=1, keepdims=True))
        traces = np.sqrt(np.clip(traces, 0.0, None))
        traces -= traces.mean(axis=1, keepdims=True)
        traces /= traces.std(axis=1, keepdims=True) + 1e-6
        self.traces = torch.from_numpy(traces)

    def __len__(self):
        return len(self.traces)

    def __getitem__(self, index):
        return self.traces[index]

    def __getitems__(self, indices):
        return self.traces[torch.as_tensor(indices)]


def make_loader(dataset, batch_size, seed):
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True,
                      collate_fn=lambda batch: batch, generator=generator)
