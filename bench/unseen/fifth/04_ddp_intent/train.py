"""Intent classifier for short utterances; data parallel.

torchrun --standalone --nproc-per-node 2 train.py
"""
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

VOCAB = 30_000
DIM = 128
INTENTS = 30
SEQ = 24
MICRO_BATCH = 16
ACCUM = 4
EPOCHS = 2


class Utterances(Dataset):
    def __init__(self, n=20_000, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, INTENTS, (n,), generator=g)
        keywords = torch.randint(2, VOCAB, (INTENTS, 40), generator=g)
        self.x = torch.randint(2, VOCAB, (n, SEQ), generator=g)
        for _ in range(5):
            pos = torch.randint(0, SEQ, (n,), generator=g)
            kw = torch.randint(0, 40, (n,), generator=g)
            self.x[torch.arange(n), pos] = keywords[self.y, kw]

    def __len__(self):
        return len(self.y)

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return self.x[idx], self.y[idx]


class IntentModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.randn(SEQ, DIM) * 0.02)
        layer = nn.TransformerEncoderLayer(DIM, 4, 256, dropout=0.1, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(DIM, INTENTS)

    def forward(self, x):
        h = self.enc(self.emb(x) + self.pos)
        return self.out(h.mean(1))


def run():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(17)
    data = Utterances()
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, batch_size=MICRO_BATCH, sampler=sampler, drop_last=True,
                        collate_fn=lambda b: b)
    model = DDP(IntentModel())
    opt = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    if rank == 0:
        print(f"world {world}, {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters, "
              f"global batch {world * MICRO_BATCH * ACCUM}")

    step = 0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        t0 = time.time()
        running = torch.zeros(())
        opt.zero_grad()
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y) / ACCUM
            loss.backward()
            running += loss.detach()
            if (i + 1) % ACCUM == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
                opt.zero_grad()
                step += 1
                if rank == 0 and step % 20 == 0:
                    rate = (i + 1) * MICRO_BATCH * world / (time.time() - t0)
                    print(f"epoch {epoch} step {step} loss {running.item() / 20:.4f} {rate:.0f} utt/s",
                          flush=True)
                    running.zero_()
    if rank == 0:
        torch.save(model.module.state_dict(), os.path.join("/tmp", f"intent_{os.getpid()}.pt"))
    dist.barrier()
    time.sleep(0.5)
    dist.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    run()
