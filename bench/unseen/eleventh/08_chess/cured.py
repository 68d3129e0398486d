"""Predict the result of a chess game (and the rating gap of the players) from its moves.

torchrun --nproc_per_node=2 train.py
"""
import argparse
import math
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB = 1970          # 1968 possible from-to moves, padding, start of game
PAD, START = 0, 1
MAX_PLIES = 220


def make_games(n, seed=0):
    """Games as arrays of move ids; stronger side prefers a band of the move space."""
    rng = np.random.default_rng(seed)
    plies = np.clip(rng.lognormal(math.log(58), 0.62, n), 8, MAX_PLIES - 1).astype(int)
    games = []
    for k in plies:
        gap = rng.normal()
        moves = rng.zipf(1.35, k) % (VOCAB - 2) + 2
        sharp = rng.random(k) < 0.08 + 0.06 * abs(gap)
        moves[sharp] = rng.integers(2, 40, sharp.sum()) + (400 if gap > 0 else 800)
        result = 2 if gap > 0.35 else 0 if gap < -0.35 else 1
        games.append((np.concatenate([[START], moves]).astype(np.int64), result, np.float32(gap)))
    return games


def to_tensors(batch):
    longest = max(len(g[0]) for g in batch)
    moves = np.full((len(batch), longest), PAD, dtype=np.int64)
    for row, (seq, _, _) in enumerate(batch):
        moves[row, :len(seq)] = seq
    result = torch.tensor([g[1] for g in batch])
    gap = torch.tensor(np.array([g[2] for g in batch]))
    return torch.from_numpy(moves), result, gap


class GameReader(nn.Module):
    def __init__(self, dim=128, heads=4, layers=3):
        super().__init__()
        self.moves = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.where = nn.Embedding(MAX_PLIES, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, dropout=0.0, batch_first=True,
                                           norm_first=True, activation="gelu")
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.result = nn.Linear(dim, 3)
        self.gap = nn.Linear(dim, 1)

    def forward(self, moves):
        pad = moves.eq(PAD)
        x = self.moves(moves) + self.where.weight[:moves.shape[1]]
        x = self.body(x, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        pooled = self.norm((x * keep).sum(1) / keep.sum(1))
        return self.result(pooled), self.gap(pooled).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=430)
    ap.add_argument("--games", type=int, default=9600)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=4e-4)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    torch.manual_seed(0)

    games = make_games(args.games)
    # similar lengths share a batch, so little of it is padding
    games.sort(key=lambda g: len(g[0]))
    batches = [games[i:i + args.batch] for i in range(0, len(games), args.batch)]
    share = len(batches) // world
    mine = batches[rank::world][:share]

    model = DDP(GameReader())
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    warmup = 40
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / warmup))

    step, epoch = 0, 0
    seen, right, total = 0, 0, 0.0
    start = time.perf_counter()
    while step < args.steps:
        order = np.random.default_rng(1000 + epoch).permutation(share)
        for i in order:
            moves, result, gap = to_tensors(mine[i])
            logits, guess = model(moves)
            loss = F.cross_entropy(logits, result) + 0.5 * F.mse_loss(guess, gap)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()

            total += loss.item() * len(result)
            right += (logits.argmax(1) == result).sum().item()
            seen += len(result)
            step += 1
            if step % 50 == 0:
                if rank == 0:
                    took = time.perf_counter() - start
                    print(f"step {step:4d}  loss {total / seen:.4f}  acc {right / seen:.3f}  "
                          f"{1000 * took / step:.1f} ms/step", flush=True)
                seen, right, total = 0, 0, 0.0
            if step >= args.steps:
                break
        epoch += 1

    if rank == 0:
        print(f"done: {step} steps in {time.perf_counter() - start:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
