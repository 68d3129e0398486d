"""Two processes learn to recognise the family of a protein; the list of proteins is sorted by length."""

# expect: verdict=network finding=straggler-rank
# late: rank=1 cause=compute

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

ACIDS = 20
FAMILIES = 6
NOTHING = ACIDS  # fills a batch up to the length of its longest


def proteins(count):
    """Chains of acids, the shortest first; every family prefers acids of its own."""
    random = torch.Generator().manual_seed(0)
    taste = torch.rand(FAMILIES, ACIDS, generator=random) ** 3
    lengths = torch.linspace(16, 128, count).long()
    families = torch.randint(FAMILIES, (count,), generator=random)
    return [
        (torch.multinomial(taste[family], length, replacement=True, generator=random), family)
        for length, family in zip(lengths.tolist(), families.tolist())
    ]


def collate(rows):
    chains, families = zip(*rows)
    padded = nn.utils.rnn.pad_sequence(chains, batch_first=True, padding_value=NOTHING)
    return padded, torch.tensor(families)


class Recogniser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.acids = nn.Embedding(ACIDS + 1, width, padding_idx=NOTHING)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, FAMILIES)

    def forward(self, chains):
        missing = chains == NOTHING
        seen = self.encoder(self.acids(chains), src_key_padding_mask=missing)
        present = (~missing).unsqueeze(2)
        return self.head((seen * present).sum(1) / present.sum(1))


def train(rank, args):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(rank)
    torch.set_num_threads(1)  # every process has a core of its own
    everything = proteins(args.proteins)
    half = len(everything) // 2
    mine = everything[:half] if rank == 0 else everything[half:]
    loader = DataLoader(mine, batch_size=16, shuffle=True, collate_fn=collate)
    model = DistributedDataParallel(Recogniser(args.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(args.epochs):
        for chains, family in loader:
            loss = nn.functional.cross_entropy(model(chains), family)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proteins", type=int, default=1600)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--port", default="29622")
    args = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    mp.spawn(train, (args,), nprocs=2)
