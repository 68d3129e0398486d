"""Hand-made batching: graphs of a batch become one disconnected graph."""
from itertools import accumulate
from typing import NamedTuple

import torch


class Packed(NamedTuple):
    kind: torch.Tensor
    charge: torch.Tensor
    edges: torch.Tensor
    dist: torch.Tensor
    angles: torch.Tensor
    owner: torch.Tensor
    size: int
    y: torch.Tensor


def pack(graphs, targets):
    counts = [len(g.kind) for g in graphs]
    offsets = [0, *accumulate(counts)][:-1]
    return Packed(
        kind=torch.cat([g.kind for g in graphs]),
        charge=torch.cat([g.charge for g in graphs]),
        edges=torch.cat([g.edges + o for g, o in zip(graphs, offsets)], 1),
        dist=torch.cat([g.dist for g in graphs]),
        angles=torch.cat([g.angles for g in graphs]),
        owner=torch.repeat_interleave(torch.arange(len(graphs)), torch.tensor(counts)),
        size=len(graphs),
        y=torch.as_tensor(targets),
    )


def batches(archive, to_graph, size, seed):
    """Endless generator of packed batches, a new permutation per pass."""
    gen = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(archive), generator=gen).tolist()
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start:start + size]
            yield pack([to_graph(archive.paths[i]) for i in chosen], archive.targets[chosen])
