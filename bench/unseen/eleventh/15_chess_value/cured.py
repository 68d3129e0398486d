"""Value network for chess positions, streamed from gzipped JSONL shards."""
import argparse
import gzip
import json
import os
import random
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

PIECES = "PNBRQKpnbrqk"
RAYS = {
    "B": [(-1, -1), (-1, 1), (1, -1), (1, 1)],
    "R": [(-1, 0), (1, 0), (0, -1), (0, 1)],
}
RAYS["Q"] = RAYS["B"] + RAYS["R"]
HOPS = {
    "N": [(-2, -1), (-2, 1), (-1, -2), (-1, 2), (1, -2), (1, 2), (2, -1), (2, 1)],
    "K": RAYS["Q"],
    "P": [(-1, -1), (-1, 1)],
    "p": [(1, -1), (1, 1)],
}
WORTH = dict(zip(PIECES, [100, 310, 330, 500, 900, 0, -100, -310, -330, -500, -900, 0]))


def to_fen(board):
    rows = []
    for r in range(8):
        text, gap = "", 0
        for c in board[8 * r:8 * r + 8]:
            if c == ".":
                gap += 1
            else:
                text += (str(gap) if gap else "") + c
                gap = 0
        rows.append(text + (str(gap) if gap else ""))
    return "/".join(rows)


def random_line(rng, plies=4):
    """The last positions of a made-up game, newest first."""
    board = ["."] * 64
    men = "Kk" + "".join(rng.choices("PPPPNBRQppppnbrq", k=rng.randint(12, 24)))
    for man, sq in zip(men, rng.sample(range(64), len(men))):
        board[sq] = man
    score = sum(WORTH[man] for man in men)
    fens = []
    for _ in range(plies):
        fens.append(to_fen(board))
        a, b = rng.choice([i for i in range(64) if board[i] != "."]), rng.choice([i for i in range(64) if board[i] == "."])
        board[a], board[b] = ".", board[a]
    return fens, score + rng.randint(-40, 40)


def write_shards(root, shards, per_shard, seed=0):
    rng = random.Random(seed)
    paths = []
    for s in range(shards):
        path = os.path.join(root, f"positions-{s:03d}.jsonl.gz")
        with gzip.open(path, "wt", compresslevel=1) as f:
            for _ in range(per_shard):
                fens, cp = random_line(rng)
                f.write(json.dumps({"line": fens, "cp": cp, "depth": rng.randint(8, 30)}) + "\n")
        paths.append(path)
    return paths


def encode_position(fen):
    """12 piece planes and 2 planes that count the attackers of either side."""
    planes = np.zeros((14, 8, 8), dtype=np.float32)
    board = []
    for row in fen.split("/"):
        line = ""
        for c in row:
            line += "." * int(c) if c.isdigit() else c
        board.append(line)
    for r in range(8):
        for c in range(8):
            man = board[r][c]
            if man == ".":
                continue
            planes[PIECES.index(man), r, c] = 1.0
            side = 12 if man.isupper() else 13
            kind = man.upper()
            for dr, dc in RAYS.get(kind, ()):
                y, x = r + dr, c + dc
                while 0 <= y < 8 and 0 <= x < 8:
                    planes[side, y, x] += 0.25
                    if board[y][x] != ".":
                        break
                    y, x = y + dr, x + dc
            for dr, dc in HOPS.get(man if kind == "P" else kind, ()):
                if 0 <= r + dr < 8 and 0 <= c + dc < 8:
                    planes[side, r + dr, c + dc] += 0.25
    return planes


def encode(fens):
    return np.concatenate([encode_position(fen) for fen in fens])


class Positions(IterableDataset):
    def __init__(self, paths, min_depth=10, max_cp=2500):
        self.paths, self.min_depth, self.max_cp = paths, min_depth, max_cp

    def records(self):
        for path in self.paths:
            with gzip.open(path, "rt") as f:
                for line in f:
                    rec = json.loads(line)
                    if rec["depth"] < self.min_depth or abs(rec["cp"]) > self.max_cp:
                        continue
                    yield rec

    def __iter__(self):
        info = get_worker_info()
        wid, n = (info.id, info.num_workers) if info else (0, 1)
        for i, rec in enumerate(self.records()):
            if i % n == wid:
                yield encode(rec["line"]), np.float32(np.tanh(rec["cp"] / 600))


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(ch), nn.BatchNorm2d(ch)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


class ValueNet(nn.Module):
    def __init__(self, plies=4, ch=16, blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(14 * plies, ch, 3, padding=1)
        self.tower = nn.Sequential(*[Residual(ch) for _ in range(blocks)])
        self.head = nn.Sequential(nn.Conv2d(ch, 4, 1), nn.Flatten(), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return torch.tanh(self.head(self.tower(F.relu(self.stem(x))))).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2200)
    ap.add_argument("--batch-size", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        paths = write_shards(root, shards=8, per_shard=1500)
        loader = DataLoader(Positions(paths), batch_size=args.batch_size, num_workers=2,
                            persistent_workers=True, prefetch_factor=4, drop_last=True)
        net = ValueNet()
        opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
        step, running, t0 = 0, 0.0, time.time()
        while step < args.steps:
            for planes, value in loader:
                loss = F.mse_loss(net(planes), value)
                opt.zero_grad()
                loss.backward()
                opt.step()
                running += loss.item()
                step += 1
                if step % 100 == 0:
                    print(f"step {step} loss {running / 100:.4f} {(time.time() - t0) / step * 1e3:.1f} ms/step", flush=True)
                    running = 0.0
                if step >= args.steps:
                    break


if __name__ == "__main__":
    main()
