from dataclasses import dataclass, fields
from typing import List

import torch
from torch import Tensor


@dataclass
class Network:
    pipes: Tensor        # (2, pipes) both directions
    length: Tensor
    diameter: Tensor
    demand: Tensor
    elevation: Tensor
    residual: Tensor
    sensor: Tensor
    degree: Tensor
    leak: Tensor

    @property
    def junctions(self):
        return self.demand.shape[0]

    @classmethod
    def from_simulation(cls, raw):
        pipes = torch.as_tensor(raw["pipes"].T.copy())
        both = torch.cat([pipes, pipes.flip(0)], dim=1)
        as_float = {k: torch.as_tensor(raw[k], dtype=torch.float32)
                    for k in ("demand", "elevation", "residual", "sensor", "degree")}
        return cls(pipes=both,
                   length=torch.as_tensor(raw["length"], dtype=torch.float32).repeat(2),
                   diameter=torch.as_tensor(raw["diameter"], dtype=torch.float32).repeat(2),
                   leak=torch.tensor(raw["leak"]), **as_float)


@dataclass
class Merged:
    node_feats: Tensor
    pipe_feats: Tensor
    pipes: Tensor
    owner: Tensor
    leak: Tensor
    count: int


def merge(networks: List[Network]) -> Merged:
    """Block-diagonal union of several networks."""
    columns = {f.name: [getattr(n, f.name) for n in networks] for f in fields(Network)}
    sizes = torch.tensor([n.junctions for n in networks])
    offset = torch.cumsum(sizes, 0) - sizes
    nodes = torch.stack([torch.cat(columns[k]) for k in
                         ("demand", "elevation", "residual", "sensor", "degree")], dim=1)
    pipe_counts = torch.tensor([p.shape[1] for p in columns["pipes"]])
    pipes = torch.cat(columns["pipes"], dim=1) + offset.repeat_interleave(pipe_counts)
    pipe_feats = torch.stack([torch.cat(columns["length"]), torch.cat(columns["diameter"])], dim=1)
    return Merged(node_feats=nodes, pipe_feats=pipe_feats, pipes=pipes,
                  owner=torch.arange(len(networks)).repeat_interleave(sizes),
                  leak=torch.stack(columns["leak"]) + offset, count=len(networks))
