import torch
from torch.utils.data import TensorDataset

AMINO = "ACDEFGHIKLMNPQRSTVWY"
HYDROPATHY = torch.tensor([1.8, 2.5, -3.5, -3.5, 2.8, -0.4, -3.2, 4.5, -3.9, 3.8, 1.9, -3.5, -1.6, -3.5, -4.5,
                           -0.8, -0.7, 4.2, -0.9, -1.3])


def mutant_library(n, length, seed):
    """Single and double mutants of a few wild types with a synthetic ddG."""
    g = torch.Generator().manual_seed(seed)
    wild = torch.randint(0, 20, (8, length), generator=g)
    buried = torch.rand(8, length, generator=g)
    family = torch.randint(0, 8, (n,), generator=g)
    seqs = wild[family].clone()
    ddg = torch.zeros(n)
    for _ in range(2):
        pos = torch.randint(0, length, (n,), generator=g)
        new = torch.randint(0, 20, (n,), generator=g)
        old = seqs[torch.arange(n), pos]
        ddg += buried[family, pos] * (HYDROPATHY[old] - HYDROPATHY[new]) / 3.0
        seqs[torch.arange(n), pos] = new
    ddg += 0.1 * torch.randn(n, generator=g)
    return TensorDataset(seqs + 2, ddg)
