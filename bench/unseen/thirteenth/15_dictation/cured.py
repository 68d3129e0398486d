"""CTC recogniser for dictated letters and digits, data parallel over gloo.

    torchrun --nproc_per_node=2 train.py

The corpus is simulated: each symbol has a spectral template, speakers differ in tempo and level.
"""
import argparse
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

BINS = 40
SYMBOLS = 36  # a-z and 0-9; CTC's blank is 0


def make_manifest(utterances, seed):
    """Transcript, tempo, level and number of frames of each utterance."""
    rng = np.random.default_rng(seed)
    manifest = []
    for i in range(utterances):
        n = int(np.clip(rng.lognormal(2.5, 0.75), 4, 55))
        text = rng.integers(1, SYMBOLS + 1, n)
        frames = rng.integers(6, 11, n)
        manifest.append({"id": i, "text": text, "frames": frames, "length": int(frames.sum()), "level": rng.normal(0, 0.3)})
    manifest.sort(key=lambda u: u["length"])
    return manifest


def render(entry, templates):
    rng = np.random.default_rng(entry["id"])
    x = np.repeat(templates[entry["text"]], entry["frames"], axis=0)
    return (x + entry["level"] + rng.normal(0, 0.6, x.shape)).astype(np.float32)


def shard(manifest, rank, world):
    """This rank's part of the manifest (equal numbers of utterances)."""
    per_rank = len(manifest) // world
    return manifest[rank:per_rank * world:world]


class Corpus:
    """Holds features in memory; batches are utterances of similar length, their order changes with the epoch."""

    def __init__(self, manifest, batch_size):
        templates = np.random.default_rng(0).normal(0, 1, (SYMBOLS + 1, BINS)).astype(np.float32)
        self.features = [torch.from_numpy(render(e, templates)) for e in manifest]
        self.texts = [torch.from_numpy(e["text"]) for e in manifest]
        self.batches = [range(i, i + batch_size) for i in range(0, len(manifest) - batch_size + 1, batch_size)]

    def __len__(self):
        return len(self.batches)

    def epoch(self, seed=None):
        g = torch.Generator().manual_seed(seed or 0)
        order = torch.randperm(len(self.batches), generator=g) if seed is not None else range(len(self.batches))
        for b in order:
            ids = self.batches[int(b)]
            xs = [self.features[i] for i in ids]
            ys = [self.texts[i] for i in ids]
            yield (nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]),
                   torch.cat(ys), torch.tensor([len(y) for y in ys]))


class ConvBlock(nn.Module):
    def __init__(self, width, kernel=9):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.depth(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.gelu(self.up(h)))


class Recogniser(nn.Module):
    def __init__(self, width=144, depth=5):
        super().__init__()
        self.stem = nn.Conv1d(BINS, width, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(*[ConvBlock(width) for _ in range(depth)])
        self.gru = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(width, SYMBOLS + 1)

    def forward(self, x):
        h = self.blocks(self.stem(x.transpose(1, 2)).transpose(1, 2))
        h, _ = self.gru(h)
        return F.log_softmax(self.out(h), -1)


def ctc(logp, lengths, texts, text_lengths):
    return F.ctc_loss(logp.transpose(0, 1), texts, (lengths + 1) // 2, text_lengths, zero_infinity=True)


@torch.no_grad()
def validate(model, corpus):
    """Mean loss and share of utterances with the right number of symbols, over all ranks."""
    model.eval()
    total = torch.zeros(3)
    for x, lengths, texts, text_lengths in corpus.epoch():
        logp = model.module(x)
        best = logp.argmax(-1)
        new = (best != F.pad(best, (1, 0))[:, :-1]) & (best != 0)
        valid = torch.arange(best.size(1)) < ((lengths + 1) // 2).unsqueeze(1)
        count = (new & valid).sum(1)
        total += torch.stack([ctc(logp, lengths, texts, text_lengths) * len(x), (count == text_lengths).float().sum(), torch.tensor(float(len(x)))])
    dist.all_reduce(total)
    model.train()
    return (total[0] / total[2]).item(), (total[1] / total[2]).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--utterances", type=int, default=1536)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--out", default="/tmp/dictation.pt")
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)

    train = Corpus(shard(make_manifest(args.utterances, seed=1), rank, world), args.batch_size)
    val = Corpus(shard(make_manifest(128, seed=2), rank, world), args.batch_size)
    model = DDP(Recogniser())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train), pct_start=0.2)
    if rank == 0:
        print(f"{args.utterances} utterances, {len(train)} steps per epoch on {world} ranks", flush=True)

    step, begin = 0, time.time()
    for epoch in range(args.epochs):
        for x, lengths, texts, text_lengths in train.epoch(seed=100 + epoch):
            loss = ctc(model(x), lengths, texts, text_lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 20 == 0 and rank == 0:
                print(f"step {step} loss {loss.item():.3f} {time.time() - begin:.1f} s", flush=True)
        val_loss, right = validate(model, val)
        if rank == 0:
            print(f"epoch {epoch} val loss {val_loss:.3f} right length {right:.2f}", flush=True)
            torch.save(model.module.state_dict(), args.out + ".tmp")
            os.replace(args.out + ".tmp", args.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
