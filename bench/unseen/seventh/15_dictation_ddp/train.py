"""CTC acoustic model on dictation snippets, data parallel.

    torchrun --nproc-per-node 2 train.py
"""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

ALPHABET = 29  # blank + letters + space + apostrophe
N_MELS = 40


def build_manifest(n, seed):
    """Utterances ordered by duration, as our preparation job writes them."""
    rng = np.random.default_rng(seed)
    frames = np.clip(rng.lognormal(mean=4.9, sigma=0.9, size=n), 40, 1000).astype(int)
    frames.sort()
    return [{"id": i, "frames": int(f), "chars": int(max(3, f // 14))} for i, f in enumerate(frames)]


class DictationDataset(Dataset):
    """Filterbank features with a spectral bump per character."""

    def __init__(self, manifest, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for row in manifest:
            text = rng.integers(1, ALPHABET, row["chars"])
            span = np.repeat(text, int(np.ceil(row["frames"] / row["chars"])))[:row["frames"]]
            feats = rng.standard_normal((row["frames"], N_MELS), dtype=np.float32)
            feats[np.arange(len(span)), span] += 3.0
            self.items.append((torch.from_numpy(feats), torch.from_numpy(text)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class BucketBatches:
    """Batches of neighbours in duration, so that there is next to no padding; shuffled each epoch."""

    def __init__(self, n_items, batch_size, rank, world, seed):
        per_rank = n_items // world
        mine = range(rank * per_rank, (rank + 1) * per_rank)
        self.batches = [list(mine[i:i + batch_size]) for i in range(0, per_rank - batch_size + 1, batch_size)]
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        order = list(range(len(self.batches)))
        random.Random(self.seed + self.epoch).shuffle(order)
        return (self.batches[i] for i in order)


def collate(items):
    feats, texts = zip(*items)
    return (nn.utils.rnn.pad_sequence(feats, batch_first=True), torch.tensor([len(f) for f in feats]),
            torch.cat(texts), torch.tensor([len(t) for t in texts]))


class ConvBlock(nn.Module):
    def __init__(self, dim, kernel):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.depth = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.down = nn.Linear(dim, dim)

    def forward(self, x):
        y = F.glu(self.up(self.norm(x)), dim=-1)
        y = self.depth(y.transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.silu(y))


class AcousticModel(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.subsample = nn.Conv1d(N_MELS, dim, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(*[ConvBlock(dim, 15) for _ in range(layers)])
        self.head = nn.Linear(dim, ALPHABET)

    def forward(self, feats):
        x = F.silu(self.subsample(feats.transpose(1, 2))).transpose(1, 2)
        return self.head(self.blocks(x)).log_softmax(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--utterances", type=int, default=960)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--dim", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=21)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // world))
    torch.manual_seed(args.seed)

    manifest = build_manifest(args.utterances, args.seed)
    dataset = DictationDataset(manifest, args.seed)
    batches = BucketBatches(len(dataset), args.batch_size, rank, world, args.seed)
    loader = DataLoader(dataset, batch_sampler=batches, collate_fn=collate)

    model = DDP(AcousticModel(args.dim, args.layers), gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3, fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(batches))
    if rank == 0:
        size = sum(p.numel() for p in model.parameters()) / 1e6
        print(f"{size:.2f}M parameters, {len(dataset)} utterances, {len(batches)} steps an epoch", flush=True)

    began = time.time()
    for epoch in range(args.epochs):
        batches.set_epoch(epoch)
        total = 0.0
        for step, (feats, feat_len, text, text_len) in enumerate(loader):
            logp = model(feats)
            loss = F.ctc_loss(logp.transpose(0, 1), text, (feat_len + 1) // 2, text_len, zero_infinity=True)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            total += loss.item()
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch}  step {step:3d}  loss {loss.item():.3f}  {time.time() - began:.1f}s", flush=True)
        mean = torch.tensor([total / len(batches)])
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch}  mean loss {mean.item() / world:.4f}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), "/tmp/dictation.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
