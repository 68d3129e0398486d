"""Essay scoring with a transformer encoder, data parallel over gloo.

torchrun --nproc_per_node=2 train.py
"""
import argparse
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCAB, MAX_LEN = 4000, 320


def make_essays(n, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(110), 0.6, n).clip(30, MAX_LEN).astype(int)
    rank = np.arange(VOCAB - 1) + 8.0
    freq = (1 / rank) / (1 / rank).sum()
    quality = rng.normal(0, 1, n)
    pool = rng.choice(VOCAB - 1, 500_000, p=freq) + 1
    essays, scores = [], []
    for length, q in zip(lengths, quality):
        start = rng.integers(0, len(pool) - length)
        words = pool[start:start + length].copy()
        rich = rng.random(length) < 0.08 * (2 + q).clip(0, 4)
        words[rich] = rng.integers(VOCAB // 2, VOCAB, rich.sum())
        essays.append(torch.from_numpy(words))
        scores.append(float(q))
    return essays, torch.tensor(scores, dtype=torch.float32)


class Essays(Dataset):
    def __init__(self, essays, scores):
        self.essays, self.scores = essays, scores

    def __len__(self):
        return len(self.essays)

    def __getitem__(self, i):
        return self.essays[i], self.scores[i]


class LengthBuckets:
    """Batches of essays of similar length, a share for every rank, in a new order each epoch."""

    def __init__(self, lengths, batch_size, rank, world, seed=0):
        order = np.argsort(lengths, kind="stable")
        count = len(order) // batch_size // world * world
        batches = [order[i * batch_size:(i + 1) * batch_size].tolist() for i in range(count)]
        share = count // world
        self.batches = batches[rank * share:(rank + 1) * share]
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        rng = np.random.default_rng((self.seed, self.epoch))
        for i in rng.permutation(len(self.batches)):
            yield self.batches[i]


def collate(items):
    ids = nn.utils.rnn.pad_sequence([x for x, _ in items], batch_first=True)
    return ids, torch.stack([y for _, y in items])


class Scorer(nn.Module):
    def __init__(self, dim=96, layers=2, heads=4):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.places = nn.Embedding(MAX_LEN, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

    def forward(self, ids):
        empty = ids == 0
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.encoder(x, src_key_padding_mask=empty)
        keep = (~empty).unsqueeze(2).to(x.dtype)
        return self.out((x * keep).sum(1) / keep.sum(1)).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=450)
    ap.add_argument("--batch-size", type=int, default=16)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    essays, scores = make_essays(4000)
    buckets = LengthBuckets([len(e) for e in essays], args.batch_size, rank, world)
    loader = DataLoader(Essays(essays, scores), batch_sampler=buckets, collate_fn=collate)
    model = DistributedDataParallel(Scorer(), gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-3, total_steps=args.steps)

    step, epoch, total, t0 = 0, 0, torch.zeros(1), time.time()
    while step < args.steps:
        buckets.set_epoch(epoch)
        for ids, y in loader:
            loss = F.mse_loss(model(ids), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.detach()
            step += 1
            if step % 50 == 0:
                dist.all_reduce(total)
                if rank == 0:
                    print(f"step {step} mse {total.item() / 50 / world:.4f} {(time.time() - t0) / step * 1e3:.1f} ms/step", flush=True)
                total.zero_()
            if step >= args.steps:
                break
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
