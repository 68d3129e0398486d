"""Two-tower recommender for playlists, data parallel over gloo.

    torchrun --standalone --nproc-per-node 2 train.py --steps 300

The song tower starts from a frozen table of audio features; the playlist tower is an
attention-pooled encoder of the last songs. In-batch softmax with popularity correction.
"""
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Playlists(Dataset):
    """Every item: the last `history` songs of a playlist and the song that follows."""

    def __init__(self, songs, playlists, history, genres, seed):
        rng = np.random.default_rng(seed)
        self.genre = np.random.default_rng(7).integers(0, genres, songs)
        order = np.argsort(self.genre, kind="stable")
        bounds = np.searchsorted(self.genre[order], np.arange(genres + 1))
        taste = rng.integers(0, genres, playlists)
        low, high = bounds[taste][:, None], bounds[taste + 1][:, None]
        pick = low + ((high - low) * rng.random((playlists, history + 1)) ** 2).astype(np.int64)
        noise = rng.integers(0, songs, (playlists, history + 1))
        chosen = np.where(rng.random((playlists, history + 1)) < 0.85, order[pick], noise)
        self.seqs = torch.from_numpy(chosen)

    def __len__(self):
        return len(self.seqs)

    def __getitem__(self, i):
        seq = self.seqs[i]
        return seq[:-1], seq[-1]


def audio_features(songs, dim, genre, genres):
    g = torch.Generator().manual_seed(11)
    centres = torch.randn(genres, dim, generator=g)
    return F.normalize(centres[torch.from_numpy(genre)] + 1.5 * torch.randn(songs, dim, generator=g), dim=1)


class SongTower(nn.Module):
    def __init__(self, features, hidden, dim):
        super().__init__()
        self.register_buffer("features", features)
        self.net = nn.Sequential(nn.Linear(features.shape[1], hidden), nn.GELU(),
                                 nn.LayerNorm(hidden), nn.Linear(hidden, dim))

    def forward(self, ids):
        return self.net(self.features[ids])


class TwoTowers(nn.Module):
    def __init__(self, features, hidden, dim, history, layers):
        super().__init__()
        self.song = SongTower(features, hidden, dim)
        self.position = nn.Parameter(torch.randn(history, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pool = nn.Linear(dim, 1)
        self.scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, history, target):
        h = self.encoder(self.song(history) + self.position)
        weight = self.pool(h).softmax(dim=1)
        user = F.normalize((weight * h).sum(1), dim=1)
        item = F.normalize(self.song(target), dim=1)
        return self.scale.exp() * user @ item.t()


@torch.no_grad()
def validate(model, loader):
    """Share of playlists whose next song is among the ten best of the batch."""
    model.eval()
    hits = torch.zeros(2)
    for history, target in loader:
        scores = model(history, target)
        best = scores.topk(10, dim=1).indices
        hits[0] += (best == torch.arange(len(target))[:, None]).any(1).sum()
        hits[1] += len(target)
    dist.all_reduce(hits)
    model.train()
    return (hits[0] / hits[1]).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--songs", type=int, default=60_000)
    p.add_argument("--audio-dim", type=int, default=160)
    p.add_argument("--playlists", type=int, default=60_000)
    p.add_argument("--history", type=int, default=16)
    p.add_argument("--genres", type=int, default=40)
    p.add_argument("--hidden", type=int, default=96)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--eval-every", type=int, default=150)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // dist.get_world_size()))

    train_set = Playlists(args.songs, args.playlists, args.history, args.genres, seed=1)
    valid_set = Playlists(args.songs, 2048, args.history, args.genres, seed=2)
    counts = torch.bincount(train_set.seqs.flatten(), minlength=args.songs).float()
    log_pop = ((counts + 1) / counts.sum()).log()
    sampler = DistributedSampler(train_set, shuffle=True, seed=args.seed)
    train = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    valid = DataLoader(valid_set, batch_size=256, sampler=DistributedSampler(valid_set, shuffle=False))

    features = audio_features(args.songs, args.audio_dim, train_set.genre, args.genres)
    model = DDP(TwoTowers(features, args.hidden, args.dim, args.history, args.layers))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)

    step, epoch, started = 0, 0, time.time()
    running = torch.zeros(())
    while step < args.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for history, target in train:
            logits = model(history, target) - log_pop[target]
            loss = F.cross_entropy(logits, torch.arange(len(target)))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                dist.all_reduce(running)
                if rank == 0:
                    loss_mean = running.item() / args.log_every / dist.get_world_size()
                    print(json.dumps({"step": step, "loss": round(loss_mean, 4),
                                      "s_per_step": round((time.time() - started) / step, 4)}), flush=True)
                running.zero_()
            if step % args.eval_every == 0:
                recall = validate(model, valid)
                if rank == 0:
                    print(json.dumps({"step": step, "recall_at_10": round(recall, 4)}), flush=True)
            if step >= args.steps:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
