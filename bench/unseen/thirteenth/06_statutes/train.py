"""Dense retrieval of statutes: a two tower encoder for citizens' questions and paragraphs of law.

Each question comes with its paragraph and a few negatives that are drawn in proportion to how often a paragraph
is cited (popular paragraphs are the ones that a weak model returns for everything).
"""
import json
import math
import os
import tempfile
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    paragraphs: int = 150_000
    questions: int = 24_000
    vocab: int = 12_000
    doc_len: int = 28
    query_len: int = 12
    negatives: int = 3
    dim: int = 64
    heads: int = 4
    layers: int = 2
    batch: int = 48
    steps: int = 360
    lr: float = 6e-4
    warmup: int = 40
    temperature: float = 0.05
    val_every: int = 120
    val_docs: int = 512
    seed: int = 11


def make_corpus(cfg):
    """Paragraphs from a topic model; a question takes words of its paragraph and some noise."""
    rng = np.random.default_rng(cfg.seed)
    topic = rng.integers(0, 400, cfg.paragraphs)
    words = 1 + rng.zipf(1.25, (cfg.paragraphs, cfg.doc_len)) % 2_000
    own = 2_000 + (topic[:, None] * 25 + rng.integers(0, 25, (cfg.paragraphs, cfg.doc_len))) % (cfg.vocab - 2_000)
    docs = np.where(rng.random(words.shape) < 0.5, own, words)
    lengths = rng.integers(cfg.doc_len // 2, cfg.doc_len + 1, cfg.paragraphs)
    docs[np.arange(cfg.doc_len)[None] >= lengths[:, None]] = 0
    cited = rng.pareto(1.2, cfg.paragraphs) + 0.1
    gold = rng.integers(0, cfg.paragraphs, cfg.questions)
    pick = rng.integers(0, cfg.doc_len // 2, (cfg.questions, cfg.query_len))
    queries = docs[gold[:, None], pick]
    noise = rng.random(queries.shape) < 0.2
    queries[noise] = rng.integers(1, cfg.vocab, noise.sum())
    return torch.from_numpy(docs), torch.from_numpy(queries), gold, cited


class QuestionSet(Dataset):
    def __init__(self, docs, queries, gold, cited, n_neg, seed=0):
        self.docs, self.queries, self.gold = docs, queries, gold
        self.n_neg = n_neg
        self.rng = np.random.default_rng(seed)
        self.weights = cited ** 0.75
        self.weights /= self.weights.sum()

    def __len__(self):
        return len(self.queries)

    def negatives(self, positive):
        neg = self.rng.choice(len(self.weights), self.n_neg + 1, replace=False, p=self.weights)
        return neg[neg != positive][: self.n_neg]

    def __getitem__(self, i):
        pos = self.gold[i]
        ids = torch.from_numpy(np.concatenate([[pos], self.negatives(pos)]))
        return self.queries[i], self.docs[ids], ids


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(cfg.doc_len, cfg.dim) * 0.02)
        layer = nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 2 * cfg.dim, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, ids):
        pad = ids == 0
        h = self.tok(ids) + self.pos[: ids.shape[1]]
        h = self.body(h, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return F.normalize(self.out((h * keep).sum(1) / keep.sum(1).clamp(min=1)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.temperature = cfg.temperature

    def forward(self, query, docs, ids):
        b, k, n = docs.shape
        q = self.encoder(query)
        d = self.encoder(docs.reshape(b * k, n))
        scores = q @ d.T / self.temperature
        target = torch.arange(b) * k
        flat = ids.reshape(-1)
        same = flat[None] == flat[target][:, None]
        same[torch.arange(b), target] = False
        return F.cross_entropy(scores.masked_fill(same, -1e4), target)


@torch.no_grad()
def mrr(model, docs, queries, gold, n):
    model.eval()
    d = torch.cat([model.encoder(docs[gold[i:i + 128]]) for i in range(0, n, 128)])
    q = model.encoder(queries[:n])
    scores = q @ d.T
    rank = (scores > scores.diagonal()[:, None]).sum(1) + 1
    model.train()
    return (1.0 / rank).mean().item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    docs, queries, gold, cited = make_corpus(cfg)
    n_val = cfg.val_docs
    train = QuestionSet(docs, queries[n_val:], gold[n_val:], cited, cfg.negatives)
    loader = DataLoader(train, cfg.batch, shuffle=True, drop_last=True)

    model = TwoTower(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / cfg.warmup) * 0.5 * (1 + math.cos(math.pi * min(1.0, s / cfg.steps))))

    out = tempfile.mkdtemp(prefix="statutes_")
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(asdict(cfg), f)
    step, running, t0 = 0, 0.0, time.time()
    while step < cfg.steps:
        for query, cands, ids in loader:
            loss = model(query, cands, ids)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item()
            step += 1
            if step % 20 == 0:
                print(f"step {step:4d}  loss {running / 20:.3f}  lr {sched.get_last_lr()[0]:.2e}  {time.time() - t0:.1f}s", flush=True)
                running = 0.0
            if step % cfg.val_every == 0:
                print(f"step {step:4d}  MRR@{n_val} {mrr(model, docs, queries, gold, n_val):.3f}", flush=True)
                torch.save(model.state_dict(), os.path.join(out, "model.pt"))
            if step == cfg.steps:
                break


if __name__ == "__main__":
    main()
