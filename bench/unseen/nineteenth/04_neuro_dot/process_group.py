from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Rank:
    index: int
    world: int

    @property
    def leads(self) -> bool:
        return self.index == 0

    def mean(self, value: torch.Tensor) -> float:
        value = value.detach().clone()
        dist.all_reduce(value)
        return value.item() / self.world


@contextmanager
def process_group(backend: str = "gloo"):
    dist.init_process_group(backend, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    try:
        yield Rank(dist.get_rank(), dist.get_world_size())
        dist.barrier()
    finally:
        dist.destroy_process_group()
