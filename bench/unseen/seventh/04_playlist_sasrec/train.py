"""Next-track recommendation: causal self-attention over a listener's history (SASRec)."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def make_histories(n_users, n_tracks, rng):
    """Every listener has a taste (a few genres) and wanders within it. Track 0 is padding."""
    genre = rng.integers(0, 40, n_tracks + 1)
    by_genre = [np.flatnonzero(genre == g) for g in range(40)]
    histories = []
    for _ in range(n_users):
        taste = rng.choice(40, 3, replace=False)
        pool = np.concatenate([by_genre[g] for g in taste])
        pool = pool[pool > 0]
        histories.append(rng.permutation(pool)[:rng.integers(20, 90)].astype(np.int64))
    return histories


class HistoryDataset(Dataset):
    """One item is one listener: inputs, the next tracks, and as many tracks never listened to."""

    def __init__(self, histories, n_tracks, max_len):
        self.histories = histories
        self.n_tracks = n_tracks
        self.max_len = max_len
        self.catalogue = np.arange(1, n_tracks + 1)

    def __len__(self):
        return len(self.histories)

    def sample_negatives(self, history, n):
        candidates = np.setdiff1d(self.catalogue, history)
        return np.random.choice(candidates, n)

    def __getitem__(self, i):
        history = self.histories[i][:-1]            # the last track is held out for testing
        window = history[-(self.max_len + 1):]
        n = len(window) - 1
        inp, pos, neg = (np.zeros(self.max_len, dtype=np.int64) for _ in range(3))
        inp[-n:], pos[-n:] = window[:-1], window[1:]
        neg[-n:] = self.sample_negatives(self.histories[i], n)
        return inp, pos, neg


class SASRec(nn.Module):
    def __init__(self, n_tracks, max_len, dim, heads, layers, dropout):
        super().__init__()
        self.tracks = nn.Embedding(n_tracks + 1, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        self.drop = nn.Dropout(dropout)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("mask", torch.triu(torch.full((max_len, max_len), -1e4), diagonal=1))
        nn.init.normal_(self.tracks.weight, std=0.05)

    def forward(self, inp):
        x = self.drop(self.tracks(inp) + self.pos)
        return self.norm(self.blocks(x, mask=self.mask, is_causal=True))


@torch.inference_mode()
def hit_rate(model, histories, max_len, k=20):
    model.eval()
    inp = np.zeros((len(histories), max_len), dtype=np.int64)
    for row, h in enumerate(histories):
        tail = h[:-1][-max_len:]
        inp[row, -len(tail):] = tail
    target = torch.tensor([h[-1] for h in histories])
    scores = model(torch.from_numpy(inp))[:, -1] @ model.tracks.weight.T
    model.train()
    return (scores.topk(k).indices == target[:, None]).any(1).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--listeners", type=int, default=2560)
    p.add_argument("--tracks", type=int, default=16000)
    p.add_argument("--max-len", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--dim", type=int, default=48)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.manual_seed(5)
    histories = make_histories(args.listeners, args.tracks, np.random.default_rng(5))
    loader = DataLoader(HistoryDataset(histories, args.tracks, args.max_len), args.batch_size,
                        shuffle=True, drop_last=True, num_workers=args.workers,
                        persistent_workers=args.workers > 0)
    model = SASRec(args.tracks, args.max_len, args.dim, heads=2, layers=2, dropout=0.2)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98), fused=True)

    for epoch in range(args.epochs):
        start, total = time.time(), 0.0
        for inp, pos, neg in loader:
            h = model(inp)
            pos_logit = (h * model.tracks(pos)).sum(-1)
            neg_logit = (h * model.tracks(neg)).sum(-1)
            real = pos > 0
            loss = (F.softplus(-pos_logit) + F.softplus(neg_logit))[real].mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        line = f"epoch {epoch:2d}  loss {total / len(loader):.4f}  {time.time() - start:.1f}s"
        if (epoch + 1) % 5 == 0:
            line += f"  HR@20 {hit_rate(model, histories[:256], args.max_len):.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
