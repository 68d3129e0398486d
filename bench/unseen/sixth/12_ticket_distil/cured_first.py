"""Distil a transformer ticket router into a small bag-of-n-grams CNN student."""
import hashlib
import random
import re
import unicodedata
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    tickets: int = 1280
    queues: int = 6
    buckets: int = 8192
    max_len: int = 48
    batch_size: int = 32
    epochs: int = 10
    temperature: float = 3.0
    lr: float = 1e-3
    seed: int = 23


ISSUES = [
    "Invoice charged twice refund billing card declined VAT receipt",
    "Login password reset two-factor locked account e-mail verification",
    "Shipment parcel delayed courier tracking address returned warehouse",
    "Crash freeze update bluescreen driver install exception stacktrace",
    "Cancel subscription renewal downgrade plan trial upgrade seats",
    "Slow latency timeout dashboard API gateway 504 throughput export",
]
SMALL_TALK = ("Hello, I've been trying since yesterday & it still doesn't work! Could you please "
              "have a look? Thanks — best regards, naïve café customer #4711").split()


def write_tickets(cfg):
    rng = random.Random(cfg.seed)
    rows = []
    for _ in range(cfg.tickets):
        y = rng.randrange(cfg.queues)
        pool = ISSUES[y].split()
        words = [rng.choice(pool) if rng.random() < 0.35 else rng.choice(SMALL_TALK)
                 for _ in range(rng.randint(35, 60))]
        rows.append((" ".join(words), y))
    return rows


class NgramEncoder:
    pattern = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[^\w\s]")

    def __init__(self, buckets, max_len):
        self.buckets, self.max_len = buckets, max_len

    def normalise(self, text):
        text = unicodedata.normalize("NFKD", text.lower())
        return "".join(c for c in text if not unicodedata.combining(c))

    def bucket(self, piece):
        return int(hashlib.md5(piece.encode()).hexdigest(), 16) % (self.buckets - 1) + 1

    def __call__(self, text):
        tokens = self.pattern.findall(self.normalise(text))[:self.max_len]
        ids = torch.zeros(self.max_len, 6, dtype=torch.long)
        for i, tok in enumerate(tokens):
            padded = f"<{tok}>"
            grams = [padded] + [padded[k:k + 3] for k in range(len(padded) - 2)]
            for j, g in enumerate(grams[:6]):
                ids[i, j] = self.bucket(g)
        return ids


class Tickets(Dataset):
    def __init__(self, rows, encoder):
        self.rows = [(encoder(text), y) for text, y in rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Teacher(nn.Module):
    def __init__(self, cfg, d=128, layers=2):
        super().__init__()
        self.grams = nn.Embedding(cfg.buckets, d, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(cfg.max_len, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d, cfg.queues)

    def forward(self, ids):
        return self.head(self.encoder(self.grams(ids).sum(2) + self.pos).mean(1))


class Student(nn.Module):
    def __init__(self, cfg, d=48):
        super().__init__()
        self.grams = nn.Embedding(cfg.buckets, d, padding_idx=0)
        self.conv = nn.Conv1d(d, 96, 3, padding=1)
        self.head = nn.Linear(96, cfg.queues)

    def forward(self, ids):
        h = self.grams(ids).sum(2).transpose(1, 2)
        return self.head(F.relu(self.conv(h)).amax(2))


def distil_step(teacher, student, ids, y, temperature):
    t_logits = teacher(ids)
    s_logits = student(ids)
    soft = F.kl_div(F.log_softmax(s_logits / temperature, 1), F.softmax(t_logits / temperature, 1),
                    reduction="batchmean") * temperature ** 2
    return 0.5 * soft + 0.5 * F.cross_entropy(s_logits, y)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    data = Tickets(write_tickets(cfg), NgramEncoder(cfg.buckets, cfg.max_len))
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=True)
    teacher, student = Teacher(cfg), Student(cfg)
    teacher.eval()
    opt = torch.optim.AdamW(student.parameters(), lr=cfg.lr, fused=True)
    for epoch in range(cfg.epochs):
        student.train()
        running = 0.0
        for step, (ids, y) in enumerate(loader, 1):
            loss = distil_step(teacher, student, ids, y, cfg.temperature)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {running / step:.4f}", flush=True)


if __name__ == "__main__":
    main()
