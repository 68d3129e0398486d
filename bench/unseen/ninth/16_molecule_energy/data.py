"""Small synthetic molecules: atom types, positions, an energy from a pair potential."""
import numpy as np
import torch
from torch.utils.data import Dataset

TYPES = 5
EPS = np.array([0.2, 0.5, 0.8, 0.6, 1.0])
RADIUS = np.array([0.6, 1.0, 0.9, 0.85, 1.3])


def make_molecule(rng, low, high):
    n = int(rng.integers(low, high + 1))
    z = rng.choice(TYPES, n, p=[0.45, 0.35, 0.08, 0.1, 0.02])
    pos = np.zeros((n, 3))
    for i in range(1, n):
        anchor = pos[rng.integers(0, i)]
        direction = rng.normal(size=3)
        pos[i] = anchor + 1.3 * direction / np.linalg.norm(direction)
    pos += rng.normal(0, 0.05, pos.shape)
    diff = pos[:, None] - pos[None]
    dist = np.sqrt((diff ** 2).sum(-1) + np.eye(n))
    sigma = 0.5 * (RADIUS[z][:, None] + RADIUS[z][None])
    eps = np.sqrt(EPS[z][:, None] * EPS[z][None])
    well = eps * ((1 - np.exp(-1.5 * (dist - sigma))) ** 2 - 1) * np.exp(-dist / 4)
    energy = 0.5 * (well * (1 - np.eye(n))).sum()
    return z.astype(np.int64), pos.astype(np.float32), np.float32(energy)


class Molecules(Dataset):
    def __init__(self, count, seed, low=8, high=20, cutoff=3.5):
        rng = np.random.default_rng(seed)
        self.graphs = []
        for _ in range(count):
            z, pos, energy = make_molecule(rng, low, high)
            dist = np.sqrt(((pos[:, None] - pos[None]) ** 2).sum(-1))
            src, dst = np.nonzero((dist < cutoff) & (dist > 0))
            self.graphs.append((torch.from_numpy(z), torch.from_numpy(pos),
                                torch.from_numpy(np.stack([src, dst])), torch.tensor(energy)))

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        return self.graphs[i]


def collate(items):
    """One big disconnected graph out of a list of molecules."""
    sizes = torch.tensor([len(z) for z, _, _, _ in items])
    offsets = torch.cumsum(sizes, 0) - sizes
    z = torch.cat([it[0] for it in items])
    pos = torch.cat([it[1] for it in items])
    edges = torch.cat([it[2] + o for it, o in zip(items, offsets)], dim=1)
    owner = torch.repeat_interleave(torch.arange(len(items)), sizes)
    energy = torch.stack([it[3] for it in items])
    return z, pos, edges, owner, energy
