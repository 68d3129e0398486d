"""Family classifier for amino acid chains of very different lengths, two ranks.

torchrun --nproc-per-node 2 train.py
"""
import os
import random

import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
import torch.distributed as dist

ALPHABET = 21  # 0 is padding
FAMILIES = 5
BATCH = 8
EPOCHS = 30


def make_chains(n=512):
    rnd = random.Random(8)
    chains = []
    for _ in range(n):
        fam = rnd.randrange(FAMILIES)
        length = int(20 + 380 * rnd.random() ** 2)
        weights = [3 if a % FAMILIES == fam else 1 for a in range(1, ALPHABET)]
        chains.append((rnd.choices(range(1, ALPHABET), weights, k=length), fam))
    # neighbours of similar length make tight batches
    chains.sort(key=lambda c: len(c[0]))
    return chains


def batches_for_rank(chains, rank, world):
    batches = [chains[i:i + BATCH] for i in range(0, len(chains), BATCH)]
    return batches[rank:len(batches) - len(batches) % world:world]


def to_tensors(batch):
    width = max(len(seq) for seq, _ in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    for i, (seq, _) in enumerate(batch):
        ids[i, :len(seq)] = torch.tensor(seq)
    return ids, torch.tensor([fam for _, fam in batch])


class ChainNet(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.Embedding(ALPHABET, dim, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, 9, padding=4) for _ in range(4))
        self.out = nn.Linear(dim, FAMILIES)

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(1).float()
        h = self.emb(ids).transpose(1, 2)
        for conv in self.convs:
            h = h + torch.relu(conv(h)) * keep
        return self.out((h * keep).sum(2) / keep.sum(2))


def main():
    dist.init_process_group(backend="gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(17)
    model = DistributedDataParallel(ChainNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = batches_for_rank(make_chains(), rank, world)
    order = list(range(len(batches)))
    shuffler = random.Random(1)  # ranks keep step with each other
    for epoch in range(EPOCHS):
        shuffler.shuffle(order)
        total = 0.0
        for b in order:
            ids, fam = to_tensors(batches[b])
            loss = nn.functional.cross_entropy(model(ids), fam)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if rank == 0:
            print(f"epoch {epoch} loss {total / len(order):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
