"""Two processes learn to tell earthquakes from trucks; the files of half of the stations are packed."""

import argparse
import lzma
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

SAMPLES = 8192  # of a trace
STATIONS = 8
TRACES = 128  # of each station


def record(folder):
    """Write what the stations heard; those with a slow line sent it packed."""
    random = np.random.default_rng(0)
    time = np.arange(SAMPLES) / 100
    for station in range(STATIONS):
        for number in range(TRACES):
            quake = number % 2
            shape = np.exp(-time * (0.2 if quake else 1.0)) * np.sin(time * (9 if quake else 40))
            trace = (2000 * shape + 300 * random.standard_normal(SAMPLES)).astype(np.int16)
            name = f"station{station}.{number}.{quake}"
            if station < STATIONS // 2:
                (folder / name).write_bytes(trace.tobytes())
            else:
                (folder / f"{name}.xz").write_bytes(lzma.compress(trace.tobytes(), preset=0))


def unpack(folder):
    for packed in folder.glob("*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()


class Traces(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        file = self.files[number]
        trace = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.int16).float() / 2000
        return trace.unsqueeze(0), int(file.name.split(".")[2])


def block(inputs, outputs):
    return [nn.Conv1d(inputs, outputs, 9, stride=4, padding=4), nn.BatchNorm1d(outputs), nn.ReLU()]


def train(rank, folder, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(rank)
    torch.set_num_threads(1)  # every process has a core of its own
    files = sorted(Path(folder).iterdir())
    half = len(files) // 2
    mine = Traces(files[rank * half : (rank + 1) * half])
    loader = DataLoader(mine, batch_size=32, shuffle=True)
    net = nn.Sequential(
        *block(1, 8), *block(8, 16), *block(16, 32), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 2)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(args.epochs):
        for traces, quake in loader:
            loss = nn.functional.cross_entropy(model(traces), quake)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--port", default="29621")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        unpack(Path(folder))
        mp.spawn(train, (folder, args), nprocs=2)
