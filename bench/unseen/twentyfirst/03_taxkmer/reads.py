"""Toy metagenome: reference genomes with taxon-specific composition, and a read sampler."""
import numpy as np
from torch.utils.data import Dataset

BASES = np.frombuffer(b"ACGT", dtype=np.uint8)


def make_genomes(n_taxa, length, seed):
    """Second-order Markov genomes; related taxa share a perturbed transition table."""
    rng = np.random.default_rng(seed)
    clades = rng.dirichlet(np.full(4, 2.0), size=(max(1, n_taxa // 4), 16))
    tables = 0.55 * clades[np.arange(n_taxa) % len(clades)] + 0.45 * rng.dirichlet(np.full(4, 1.2), size=(n_taxa, 16))
    cdf = tables.cumsum(axis=2)[..., :3]
    u = rng.random((length, n_taxa, 1))
    genomes = np.empty((n_taxa, length), dtype=np.uint8)
    taxa, state = np.arange(n_taxa), rng.integers(16, size=n_taxa)
    for i in range(length):
        base = (u[i] > cdf[taxa, state]).sum(axis=1)
        genomes[:, i] = base
        state = (state * 4 + base) % 16
    return genomes


class ReadDataset(Dataset):
    """Simulated reads. Index and seed give the taxon, the position, the strand and the sequencing errors."""

    def __init__(self, genomes, n_reads, min_len, max_len, error_rate, seed):
        self.genomes = genomes
        self.n_reads = n_reads
        self.min_len = min_len
        self.max_len = max_len
        self.error_rate = error_rate
        self.seed = seed

    def __len__(self):
        return self.n_reads

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, int(i)))
        taxon = int(rng.integers(len(self.genomes)))
        genome = self.genomes[taxon]
        n = int(rng.integers(self.min_len, self.max_len + 1))
        start = int(rng.integers(len(genome) - n))
        read = genome[start : start + n].copy()
        errors = rng.random(n) < self.error_rate
        read[errors] = (read[errors] + rng.integers(1, 4, size=int(errors.sum()))) % 4
        if rng.random() < 0.5:
            read = 3 - read[::-1]
        sequence = bytearray(BASES[read].tobytes())
        if rng.random() < 0.05:
            sequence[int(rng.integers(n))] = ord("N")
        return {"sequence": sequence.decode("ascii"), "label": taxon}
