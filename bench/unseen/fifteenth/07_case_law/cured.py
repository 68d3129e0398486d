"""Which circuit wrote it? Outcome and court prediction from windows of court opinions.

Opinions are long, so a document is represented in training by a random window of tokens and in
validation by its opening. The corpus is simulated (statutes, citations, stock phrases).
"""
import argparse
import dataclasses
import json
import pathlib
import re
import tempfile
import time
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

TOKEN = re.compile(r"§+|\d+(?:\.\d+)*|[a-z]+(?:'[a-z]+)?|[^\w\s]")
CITATION = re.compile(r"\b\d+ (?:u\.s\.|f\.2d|f\.3d|s\. ct\.) \d+")
STATUTE = re.compile(r"\b(\d+) u\.s\.c\. § ?\d+(?:\([a-z]\))*")

PAD, UNK, CLS = 0, 1, 2
COURTS = 12


def simulate_opinions(n, seed):
    rng = np.random.default_rng(seed)
    syll = ["con", "tra", "ver", "lex", "jur", "tort", "pro", "sta", "re", "men", "dis", "tion", "ment", "able", "ive", "ary", "ent", "ous"]
    words = ["".join(w) for w in np.random.default_rng(0).choice(syll, size=(5000, 3))]
    topics = np.random.default_rng(1).dirichlet(np.full(5000, 0.05), size=COURTS)
    common = 1.0 / np.arange(1, 5001) ** 1.05
    common /= common.sum()
    docs = []
    for _ in range(n):
        court, affirmed = int(rng.integers(COURTS)), int(rng.integers(2))
        length = int(np.clip(rng.normal(6000, 1500), 1500, 12000))
        picks = rng.choice(5000, size=length, p=0.6 * common + 0.4 * topics[court])
        text = [words[i] for i in picks]
        for at in rng.integers(0, length, size=length // 60):
            year, page = rng.integers(100, 999, size=2)
            text[at] = ["See %d F.3d %d,", "(citing %d U.S. %d).", "under %d U.S.C. § %d(a),"][int(rng.integers(3))] % (year, page)
        for at in rng.integers(0, length, size=length // 90):
            text[at] = "affirm." if affirmed ^ (rng.random() < 0.25) else "reverse."
        docs.append({"text": " ".join(text), "court": court, "outcome": affirmed})
    return docs


class LegalTokenizer:
    """Word level tokens with citations and statutes folded into one token each."""

    def __init__(self, vocab):
        self.vocab = {w: i + 3 for i, w in enumerate(vocab)}

    @staticmethod
    def normalise(text):
        text = text.lower()
        text = CITATION.sub(" xcite ", text)
        return STATUTE.sub(lambda m: f" xusc{chr(97 + int(m.group(1)) % 26)} ", text)

    @classmethod
    def split(cls, text):
        return TOKEN.findall(cls.normalise(text))

    @classmethod
    def fit(cls, texts, size):
        counts = Counter()
        for text in texts:
            counts.update(cls.split(text))
        return cls([w for w, _ in counts.most_common(size - 3)])

    def encode(self, text):
        return [self.vocab.get(w, UNK) for w in self.split(text)]

    def __len__(self):
        return len(self.vocab) + 3


class OpinionWindows(Dataset):
    def __init__(self, docs, tokenizer, window, windows_per_doc=1, random=True, seed=0):
        self.docs, self.window = docs, window
        self.ids = [tokenizer.encode(doc["text"]) for doc in docs]
        self.windows_per_doc = windows_per_doc
        self.random = random
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.docs) * self.windows_per_doc

    def __getitem__(self, index):
        doc = self.docs[index // self.windows_per_doc]
        ids = self.ids[index // self.windows_per_doc]
        room = len(ids) - self.window + 1
        start = int(self.rng.integers(room)) if self.random and room > 1 else 0
        ids = [CLS] + ids[start:start + self.window - 1]
        ids += [PAD] * (self.window - len(ids))
        return torch.tensor(ids), doc["court"], doc["outcome"]


class WindowEncoder(nn.Module):
    def __init__(self, vocab, window, dim=96, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.position = nn.Parameter(torch.randn(window, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.court = nn.Linear(dim, COURTS)
        self.outcome = nn.Linear(dim, 2)

    def forward(self, ids):
        h = self.encoder(self.tokens(ids) + self.position)
        keep = (ids != PAD).unsqueeze(-1)
        h = (h * keep).sum(1) / keep.sum(1)
        return self.court(h), self.outcome(h)


@dataclasses.dataclass
class Config:
    epochs: int = 4
    docs: int = 360
    windows_per_doc: int = 4
    window: int = 128
    batch_size: int = 16
    vocab: int = 6000
    lr: float = 8e-4
    seed: int = 0
    out: str = str(pathlib.Path(tempfile.gettempdir()) / "opinions")


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        docs = simulate_opinions(cfg.docs, cfg.seed)
        n_val = len(docs) // 10
        train, val = docs[n_val:], docs[:n_val]
        self.tokenizer = LegalTokenizer.fit((d["text"] for d in train), cfg.vocab)
        self.train_loader = DataLoader(OpinionWindows(train, self.tokenizer, cfg.window, cfg.windows_per_doc),
                                       cfg.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(OpinionWindows(val, self.tokenizer, cfg.window, random=False), 64)
        self.model = WindowEncoder(len(self.tokenizer), cfg.window)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=0.05, fused=True)
        total = cfg.epochs * len(self.train_loader)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min((s + 1) / 50, max(0.05, 1 - s / total)))
        self.out = pathlib.Path(cfg.out)
        self.out.mkdir(parents=True, exist_ok=True)

    def loss(self, ids, court, outcome):
        by_court, by_outcome = self.model(ids)
        return F.cross_entropy(by_court, court, label_smoothing=0.05) + 0.5 * F.cross_entropy(by_outcome, outcome), by_court, by_outcome

    def train_epoch(self):
        self.model.train()
        total = torch.zeros(())
        for ids, court, outcome in self.train_loader:
            loss, _, _ = self.loss(ids, court, outcome)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            self.sched.step()
            total += loss.detach()
        return total.item() / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits, n = torch.zeros(2), 0
        for ids, court, outcome in self.val_loader:
            _, by_court, by_outcome = self.loss(ids, court, outcome)
            hits += torch.stack([(by_court.argmax(-1) == court).sum(), (by_outcome.argmax(-1) == outcome).sum()])
            n += len(ids)
        return (hits / n).tolist()

    def fit(self):
        best = 0.0
        for epoch in range(self.cfg.epochs):
            t0 = time.perf_counter()
            loss = self.train_epoch()
            court, outcome = self.validate()
            print(json.dumps({"epoch": epoch, "loss": round(loss, 4), "court_acc": round(court, 3), "outcome_acc": round(outcome, 3),
                              "seconds": round(time.perf_counter() - t0, 1)}), flush=True)
            if court >= best:
                best = court
                torch.save({"model": self.model.state_dict(), "cfg": dataclasses.asdict(self.cfg)}, self.out / "best.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for f in dataclasses.fields(Config):
        parser.add_argument("--" + f.name.replace("_", "-"), type=type(f.default), default=f.default)
    Trainer(Config(**vars(parser.parse_args()))).fit()
