"""Masked-nucleotide pre-training on windows of a genome.

The genome is written once as uint8 codes and memory-mapped by the dataset;
windows are cropped at random and reverse-complemented half of the time.
"""
import argparse
import logging
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("promoter_lm")
A, C, G, T, MASK = range(5)
COMPLEMENT = np.array([T, G, C, A], dtype=np.uint8)


def write_genome(path, length, seed):
    """Random background with a handful of conserved motifs dropped in."""
    rng = np.random.default_rng(seed)
    genome = rng.integers(0, 4, length, dtype=np.uint8)
    motifs = [rng.integers(0, 4, 24, dtype=np.uint8) for _ in range(8)]
    starts = np.arange(0, length - 64, 48)
    starts = starts + rng.integers(0, 20, len(starts))
    which = rng.integers(0, len(motifs), len(starts))
    for s, k in zip(starts, which):
        genome[s:s + 24] = motifs[k]
    genome.tofile(path)


class GenomeBatches(Dataset):
    """Item i is the whole i-th batch of windows, masked and ready to use."""

    def __init__(self, path, span, window, batch_size, n_batches, mask_rate, seed, augment=True):
        self.genome = np.memmap(path, dtype=np.uint8, mode="r")
        self.lo, self.hi = span
        self.window, self.batch_size = window, batch_size
        self.n_batches, self.mask_rate = n_batches, mask_rate
        self.seed, self.augment = seed, augment

    def __len__(self):
        return self.n_batches

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        start = rng.integers(self.lo, self.hi - self.window, self.batch_size)
        seq = self.genome[start[:, None] + np.arange(self.window)]
        if self.augment:
            rev = rng.random(self.batch_size) < 0.5
            seq[rev] = COMPLEMENT[seq[rev, ::-1]]
        n_mask = int(self.mask_rate * self.window)
        pos = rng.random((self.batch_size, self.window)).argpartition(n_mask, axis=1)[:, :n_mask]
        labels = np.take_along_axis(seq, pos, axis=1).astype(np.int64)
        np.put_along_axis(seq, pos, MASK, axis=1)
        return (torch.from_numpy(seq.astype(np.int64)), torch.from_numpy(pos.astype(np.int64)),
                torch.from_numpy(labels))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)
        self.dropout = dropout

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (self.qkv(self.ln1(x)).view(b, n, 3, self.heads, -1)
                   .permute(2, 0, 3, 1, 4).unbind(0))
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.relu(self.fc1(self.ln2(x))))


class GenomeEncoder(nn.Module):
    def __init__(self, window, dim, depth, heads, dropout=0.0):
        super().__init__()
        self.tok = nn.Embedding(5, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, window, dim))
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 4)

    def forward(self, seq, pos):
        h = self.tok(seq) + self.pos
        for layer in self.layers:
            h = layer(h)
        h = h.gather(1, pos.unsqueeze(-1).expand(-1, -1, h.shape[-1]))
        return self.head(self.norm(h))


def mlm_loss(model, batch):
    seq, pos, labels = batch
    logits = model(seq, pos)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


@torch.inference_mode()
def evaluate(model, loader):
    model.eval()
    loss_sum, right, total = 0.0, 0, 0
    for batch in loader:
        loss, logits = mlm_loss(model, batch)
        loss_sum += loss.item()
        right += (logits.argmax(-1) == batch[2]).sum().item()
        total += batch[2].numel()
    model.train()
    return loss_sum / len(loader), right / total


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--genome-length", type=int, default=2_000_000)
    ap.add_argument("--window", type=int, default=128)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--steps", type=int, default=340)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=3)
    ap.add_argument("--heads", type=int, default=4)
    ap.add_argument("--mask-rate", type=float, default=0.15)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--log-every", type=int, default=40)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)

    with tempfile.TemporaryDirectory(prefix="genome_") as root:
        path = os.path.join(root, "genome.u8")
        write_genome(path, args.genome_length, args.seed)
        cut = int(0.95 * args.genome_length)
        train = GenomeBatches(path, (0, cut), args.window, args.batch_size, args.steps,
                              args.mask_rate, args.seed)
        val = GenomeBatches(path, (cut, args.genome_length), args.window, args.batch_size, 8,
                            args.mask_rate, args.seed + 1, augment=False)
        train_loader = DataLoader(train, batch_size=None, num_workers=args.workers)
        val_loader = DataLoader(val, batch_size=None)

        model = GenomeEncoder(args.window, args.dim, args.depth, args.heads)
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05, fused=True)
        sched = torch.optim.lr_scheduler.LambdaLR(
            opt, lambda s: min((s + 1) / 30, 0.5 * (1 + math.cos(math.pi * s / args.steps))))
        running = 0.0
        tic = time.perf_counter()
        for step, batch in enumerate(train_loader, 1):
            loss, _ = mlm_loss(model, batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad(set_to_none=True)
            running += loss.item()
            if step % args.log_every == 0:
                log.info("step %d/%d loss %.4f lr %.2e", step, args.steps,
                         running / args.log_every, sched.get_last_lr()[0])
                running = 0.0
        spent = time.perf_counter() - tic
        log.info("validation loss %.4f accuracy %.3f", *evaluate(model, val_loader))
        torch.save(model.state_dict(), os.path.join(root, "encoder.pt"))
        log.info("%d steps, %.1f ms per step", args.steps, 1000 * spent / args.steps)


if __name__ == "__main__":
    main()
