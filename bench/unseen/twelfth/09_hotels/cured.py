"""Two-tower style ranking of hotels for a traveller's search, DDP on CPU with gloo.

torchrun --nproc_per_node=2 train.py
"""
import argparse
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

N_HOTELS = 200_000
HOTEL_DIM = 96
QUERY_DIM = 40
CANDIDATES = 20


def hotel_descriptors():
    """Content descriptors of all hotels (location, stars, photos, texts), computed offline."""
    g = torch.Generator().manual_seed(5)
    return torch.randn(N_HOTELS, HOTEL_DIM, generator=g)


class Searches(Dataset):
    """A search (numbers), the hotels shown, and which one was booked (position 0)."""

    def __init__(self, n, hotels, seed):
        rng = np.random.default_rng(seed)
        self.query = torch.from_numpy(rng.standard_normal((n, QUERY_DIM), dtype=np.float32))
        taste = torch.randn(QUERY_DIM, HOTEL_DIM, generator=torch.Generator().manual_seed(1)) / 8
        shown = torch.from_numpy(rng.integers(0, N_HOTELS, (n, CANDIDATES)))
        score = torch.empty(n, CANDIDATES)
        for a in range(0, n, 2000):
            b = a + 2000
            score[a:b] = torch.einsum("nd,ncd->nc", self.query[a:b] @ taste, hotels[shown[a:b]])
        best = score.argmax(1, keepdim=True)
        first = shown[:, :1].clone()
        shown[:, :1] = shown.gather(1, best)
        shown.scatter_(1, best, torch.where(best == 0, shown[:, :1], first))
        self.shown = shown

    def __len__(self):
        return len(self.query)

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return self.query[idx], self.shown[idx]


class Ranker(nn.Module):
    def __init__(self, hotels, width=256, out=96):
        super().__init__()
        self.register_buffer("hotels", hotels)
        self.query_net = nn.Sequential(
            nn.Linear(QUERY_DIM, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, out)
        )
        self.hotel_net = nn.Sequential(
            nn.Linear(HOTEL_DIM, width), nn.GELU(), nn.LayerNorm(width),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, out)
        )
        self.temp = nn.Parameter(torch.tensor(2.0))

    def forward(self, query, shown):
        q = F.normalize(self.query_net(query), dim=-1)
        h = F.normalize(self.hotel_net(self.hotels[shown]), dim=-1)
        return torch.einsum("bd,bcd->bc", q, h) * self.temp.exp()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=900)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)

    hotels = hotel_descriptors()
    data = Searches(30_000, hotels, seed=3)
    sampler = DistributedSampler(data, shuffle=True, seed=7, drop_last=True)
    loader = DataLoader(data, batch_size=args.batch, sampler=sampler, drop_last=True, collate_fn=lambda b: b)

    model = DDP(Ranker(hotels), broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps)

    target = torch.zeros(args.batch, dtype=torch.long)
    running = torch.zeros(2)
    step, epoch, start = 0, 0, time.perf_counter()
    while step < args.steps:
        sampler.set_epoch(epoch)
        for query, shown in loader:
            logits = model(query, shown)
            loss = F.cross_entropy(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            running += torch.stack([loss.detach(), (logits.argmax(1) == 0).float().mean()])
            step += 1
            if step % 50 == 0:
                dist.all_reduce(running)
                loss_avg, hit = (running / (50 * world)).tolist()
                running.zero_()
                if rank == 0:
                    print(f"step {step:5d} loss {loss_avg:.4f} hit@1 {hit:.3f} {time.perf_counter() - start:.1f}s",
                          flush=True)
            if step >= args.steps:
                break
        epoch += 1

    if rank == 0:
        print(f"done: {step} steps, {(time.perf_counter() - start) / step * 1e3:.1f} ms per step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
