"""Gene filters."""
import numpy as np


def dispersion(counts):
    """Variance over mean of each gene."""
    mean = np.asarray(counts.mean(axis=0)).ravel()
    square = np.asarray(counts.multiply(counts).mean(axis=0)).ravel()
    return (square - mean ** 2) / np.maximum(mean, 1e-6), mean


def select_variable(counts, keep, ceiling=50.0):
    counts = counts.tocsc()
    counts.data = np.minimum(counts.data, ceiling)
    ratio, mean = dispersion(counts)
    ratio[mean < 0.01] = -np.inf
    chosen = np.sort(np.argsort(-ratio)[:keep])
    return counts[:, chosen], chosen
