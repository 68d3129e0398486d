import os

import torch
import torch.distributed as dist


def setup():
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29544")
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def shutdown():
    if dist.is_initialized():
        dist.destroy_process_group()


def average(value):
    """Mean of a python float over the ranks."""
    box = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(box)
    return float(box) / dist.get_world_size()
