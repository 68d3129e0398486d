"""Droplet counts from a few cell programmes."""
import numpy as np
import scipy.sparse as sp


def droplet_counts(cells, genes, programmes, donors, seed):
    rng = np.random.default_rng(seed)
    loading = rng.gamma(0.35, 1.0, size=(programmes, genes)).astype(np.float32)
    usage = rng.dirichlet(np.full(programmes, 0.4), size=cells).astype(np.float32)
    depth = rng.lognormal(0.0, 0.35, size=(cells, 1)).astype(np.float32)
    donor = rng.integers(0, donors, size=cells)
    shift = rng.lognormal(0.0, 0.2, size=(donors, genes)).astype(np.float32)
    blocks = []
    for start in range(0, cells, 1000):
        part = slice(start, start + 1000)
        rate = (usage[part] @ loading) * depth[part] * shift[donor[part]] * 0.7
        blocks.append(sp.csr_matrix(rng.poisson(rate).astype(np.float32)))
    return sp.vstack(blocks, format="csr"), donor
