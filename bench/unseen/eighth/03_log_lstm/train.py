"""Classify service log sessions (ok / timeout / auth / disk) with an LSTM.

Sessions are stored in shards of token ids; index.csv says where every session lies:
    session_id,shard,offset,length,label
"""
import argparse
import csv
import logging
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, random_split

LABELS = ["ok", "timeout", "auth", "disk"]
VOCAB = 400
logger = logging.getLogger(__name__)


def synthesise(root, sessions, shards, seed):
    rng = np.random.default_rng(seed)
    rows = []
    per_shard = sessions // shards
    for s in range(shards):
        tokens, offset = [], 0
        for k in range(per_shard):
            label = int(rng.integers(len(LABELS)))
            length = int(rng.integers(20, 60))
            seq = rng.integers(40, VOCAB, length)
            hits = rng.random(length) < 0.15
            seq[hits] = 1 + label * 10 + rng.integers(0, 10, hits.sum())
            tokens.append(seq)
            rows.append((f"s{s:02d}-{k:05d}", s, offset, length, LABELS[label]))
            offset += length
        np.save(os.path.join(root, f"shard_{s:02d}.npy"), np.concatenate(tokens).astype(np.int64))
    with open(os.path.join(root, "index.csv"), "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["session_id", "shard", "offset", "length", "label"])
        writer.writerows(rows)


class SessionDataset(Dataset):
    def __init__(self, root):
        self.root = root
        self.index_path = os.path.join(root, "index.csv")
        self.n_sessions = len(self._entries())
        self._shards = {}

    def _entries(self):
        with open(self.index_path, newline="") as f:
            return list(csv.DictReader(f))

    def _shard(self, number):
        if number not in self._shards:
            path = os.path.join(self.root, f"shard_{number:02d}.npy")
            self._shards[number] = np.load(path, mmap_mode="r")
        return self._shards[number]

    def __len__(self):
        return self.n_sessions

    def __getitem__(self, i):
        row = self._entries()[i]
        start = int(row["offset"])
        stop = start + int(row["length"])
        tokens = torch.from_numpy(self._shard(int(row["shard"]))[start:stop].copy())
        return tokens, LABELS.index(row["label"])


def collate(batch):
    seqs, labels = zip(*batch)
    lengths = torch.tensor([len(s) for s in seqs])
    return pad_sequence(seqs, batch_first=True), lengths, torch.tensor(labels)


class LogLSTM(nn.Module):
    def __init__(self, emb=48, hidden=128):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * hidden, len(LABELS)))

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.emb(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.out(torch.cat([h[0], h[1]], dim=1))


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.inference_mode():
        for tokens, lengths, labels in loader:
            right += (model(tokens, lengths).argmax(1) == labels).sum().item()
            total += len(labels)
    model.train()
    return right / total


def run(args, root):
    data = SessionDataset(root)
    n_val = len(data) // 10
    train, val = random_split(data, [len(data) - n_val, n_val],
                              generator=torch.Generator().manual_seed(args.seed))
    train_loader = DataLoader(train, args.batch, shuffle=True, num_workers=args.workers,
                              collate_fn=collate, drop_last=True, persistent_workers=args.workers > 0)
    val_loader = DataLoader(val, args.batch, collate_fn=collate)
    model = LogLSTM()
    optimiser = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        tic = time.perf_counter()
        running = torch.zeros(())
        for tokens, lengths, labels in train_loader:
            optimiser.zero_grad(set_to_none=True)
            loss = criterion(model(tokens, lengths), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            running += loss.detach()
        logger.info("epoch %d loss %.4f val acc %.3f (%.1f s)", epoch, running.item() / len(train_loader),
                    evaluate(model, val_loader), time.perf_counter() - tic)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1600)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory(prefix="sessions_") as root:
        synthesise(root, args.sessions, args.shards, args.seed)
        run(args, root)


if __name__ == "__main__":
    main()
