"""Pocket -> graph. Coordinates are rigid, so a pocket's graph is built once and kept."""
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch


class Graph(NamedTuple):
    kind: torch.Tensor      # (n,)
    charge: torch.Tensor    # (n, 1)
    edges: torch.Tensor     # (2, e) source, target
    dist: torch.Tensor      # (e,)
    angles: torch.Tensor    # (e, bins)


def neighbor_list(xyz, cutoff, k):
    d = np.linalg.norm(xyz[:, None] - xyz[None], axis=-1)
    np.fill_diagonal(d, np.inf)
    src, dst = [], []
    for target in range(len(xyz)):
        order = np.argsort(d[target])[:k]
        near = order[d[target, order] < cutoff]
        src.extend(near.tolist())
        dst.extend([target] * len(near))
    return np.array(src), np.array(dst)


def angle_histogram(xyz, src, dst, bins):
    """For edge s->t: how the other neighbours of t are spread around it."""
    vec = xyz[src] - xyz[dst]
    vec /= np.linalg.norm(vec, axis=1, keepdims=True) + 1e-6
    out = np.zeros((len(src), bins), np.float32)
    starts = np.searchsorted(dst, np.arange(len(xyz) + 1))
    for a, b in zip(starts[:-1], starts[1:]):
        if b > a:
            cos = np.clip(vec[a:b] @ vec[a:b].T, -1, 1)
            slot = np.minimum(((cos + 1) * 0.5 * bins).astype(int), bins - 1)
            flat = slot + np.arange(b - a)[:, None] * bins
            out[a:b] = np.bincount(flat.ravel(), minlength=(b - a) * bins).reshape(b - a, bins) / (b - a)
    return out


@lru_cache(maxsize=None)
def pocket_graph(path, cutoff, max_neighbors, bins):
    with np.load(path) as z:
        xyz, kind, charge = z["xyz"], z["kind"], z["charge"]
    src, dst = neighbor_list(xyz, cutoff, max_neighbors)
    dist = np.linalg.norm(xyz[src] - xyz[dst], axis=1)
    return Graph(
        torch.from_numpy(kind),
        torch.from_numpy(charge)[:, None],
        torch.from_numpy(np.stack([src, dst])),
        torch.from_numpy(dist),
        torch.from_numpy(angle_histogram(xyz, src, dst, bins)),
    )
