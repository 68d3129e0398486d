"""Part-of-speech style tagger on two processes.

    torchrun --nproc-per-node 2 train.py
"""
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, TAGS, LENGTH = 40_000, 48, 24
MICRO, ACCUMULATE, UPDATES = 8, 4, 300


class Tagger(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, TAGS)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


def sentences(g):
    ids = torch.randint(0, VOCAB, (MICRO, LENGTH), generator=g)
    prev = torch.cat([ids[:, :1], ids[:, :-1]], 1)
    return ids, (ids + prev // 3) % TAGS


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    model = DDP(Tagger())
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    g = torch.Generator().manual_seed(500 + rank)
    confusion = torch.zeros(TAGS, TAGS)
    for update in range(UPDATES):
        opt.zero_grad()
        for micro in range(ACCUMULATE):
            ids, tags = sentences(g)
            with model.no_sync() if micro < ACCUMULATE - 1 else nullcontext():
                logits = model(ids)
                loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten()) / ACCUMULATE
                loss.backward()
            # joint confusion matrix of both ranks
            pred = logits.detach().argmax(-1).flatten()
            confusion.index_put_((tags.flatten(), pred), torch.ones(len(pred)), accumulate=True)
        opt.step()
        if update % 20 == 0:
            joint = confusion.clone()
            dist.all_reduce(joint)
            acc = joint.diag().sum() / joint.sum()
        if rank == 0 and update % 20 == 0:
            print(f"update {update} loss {loss.item() * ACCUMULATE:.3f} acc {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
