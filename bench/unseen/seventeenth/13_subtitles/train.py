"""Subtitle translation: BPE with dropout, streamed subtitle pairs, small Transformer encoder-decoder."""
import argparse
import collections
import gzip
import json
import math
import os
import random
import re
import tempfile
import time
import unicodedata

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

PAD, BOS, EOS, UNK = 0, 1, 2, 3
TAG = re.compile(r"<[^>]+>|\{[^}]+\}")
SPEAKER = re.compile(r"^[A-Z][A-Z .]+:\s*")
SPACES = re.compile(r"\s+")
TOKEN = re.compile(r"\w+|[^\w\s]")


def clean(text):
    text = unicodedata.normalize("NFKC", text)
    text = SPEAKER.sub("", TAG.sub("", text))
    return SPACES.sub(" ", text).strip().lower()


class BPE:
    """Byte-pair encoding learnt from word counts; `dropout` skips merges at random (subword regularisation)."""

    def __init__(self, texts, n_merges):
        counts = collections.Counter(w for t in texts for w in TOKEN.findall(clean(t)))
        words = {w: tuple(w[:-1]) + (w[-1] + "_",) for w in counts}
        symbols = {s for pieces in words.values() for s in pieces}
        self.merges = []
        for _ in range(n_merges):
            pairs = collections.Counter()
            for w, pieces in words.items():
                for pair in zip(pieces, pieces[1:]):
                    pairs[pair] += counts[w]
            if not pairs:
                break
            best = max(pairs, key=lambda p: (pairs[p], p))
            self.merges.append(best)
            symbols.add(best[0] + best[1])
            words = {w: self._merge(p, best) if best[0] in p else p for w, p in words.items()}
        self.vocab = {s: i + 4 for i, s in enumerate(sorted(symbols))}

    def __len__(self):
        return len(self.vocab) + 4

    @staticmethod
    def _merge(pieces, pair):
        out, i = [], 0
        while i < len(pieces):
            if i + 1 < len(pieces) and pieces[i] == pair[0] and pieces[i + 1] == pair[1]:
                out.append(pair[0] + pair[1])
                i += 2
            else:
                out.append(pieces[i])
                i += 1
        return tuple(out)

    def encode_word(self, word, dropout, rng):
        pieces = tuple(word[:-1]) + (word[-1] + "_",)
        while len(pieces) > 1:
            known = [(self.merges.index(p), p) for p in zip(pieces, pieces[1:])
                     if p in self.merges and (dropout == 0 or rng.random() >= dropout)]
            if not known:
                break
            pieces = self._merge(pieces, min(known)[1])
        return [self.vocab.get(p, UNK) for p in pieces]

    def encode(self, text, dropout=0.0, rng=None):
        ids = [BOS]
        for word in TOKEN.findall(clean(text)):
            ids += self.encode_word(word, dropout, rng)
        return ids + [EOS]


class SubtitlePairs(IterableDataset):
    def __init__(self, path, src_bpe, tgt_bpe, dropout=0.1, max_len=96, seed=0):
        self.path, self.src_bpe, self.tgt_bpe = path, src_bpe, tgt_bpe
        self.dropout, self.max_len, self.seed = dropout, max_len, seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def examples(self, worker, workers):
        with gzip.open(self.path, "rt", encoding="utf-8") as f:
            for number, line in enumerate(f):
                if number % workers != worker:
                    continue
                cue = json.loads(line)
                rng = random.Random(self.seed + 1_000_003 * self.epoch + number)
                src = self.src_bpe.encode(cue["src"], self.dropout, rng)
                tgt = self.tgt_bpe.encode(cue["tgt"], self.dropout, rng)
                yield src[:self.max_len], tgt[:self.max_len]

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        yield from self.examples(worker, workers)


def collate(pairs):
    def pad(seqs):
        out = torch.zeros(len(seqs), max(map(len, seqs)), dtype=torch.long)
        for i, s in enumerate(seqs):
            out[i, :len(s)] = torch.tensor(s)
        return out
    return pad([p[0] for p in pairs]), pad([p[1] for p in pairs])


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, dim=64, heads=4, layers=1):
        super().__init__()
        self.src_emb = nn.Embedding(n_src, dim, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(n_tgt, dim, padding_idx=PAD)
        pos = torch.arange(128)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        self.register_buffer("pos", torch.stack([pos.sin(), pos.cos()], -1).flatten(1))
        self.core = nn.Transformer(dim, heads, layers, layers, 2 * dim, dropout=0.1, batch_first=True)
        self.out = nn.Linear(dim, n_tgt)

    def forward(self, src, tgt):
        causal = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)
        x = self.src_emb(src) * 8 + self.pos[:src.size(1)]
        y = self.tgt_emb(tgt) * 8 + self.pos[:tgt.size(1)]
        h = self.core(x, y, tgt_mask=causal, src_key_padding_mask=src == PAD,
                      tgt_key_padding_mask=tgt == PAD, memory_key_padding_mask=src == PAD)
        return self.out(h)


def write_corpus(path, n_pairs, seed):
    """Invented language pair: word-for-word lexicon with adjective/noun swaps and a sentence-final verb."""
    rng = random.Random(seed)
    make = lambda syl, lo, hi: "".join(rng.choice(syl) for _ in range(rng.randint(lo, hi)))
    lexicon = [(make(["ka", "to", "mir", "sel", "un", "dra", "pe", "lo", "vin", "est"], 2, 5),
                make(["shi", "gro", "ja", "nek", "ul", "wo", "ti", "berr", "am", "oy"], 2, 5)) for _ in range(3000)]
    weights = [1 / (r + 5) for r in range(len(lexicon))]
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=3) as f:
        for i in range(n_pairs):
            words = rng.choices(lexicon, weights, k=rng.randint(4, 12))
            src, tgt = [w[0] for w in words], [w[1] for w in words]
            tgt[1], tgt[2] = tgt[2], tgt[1]
            tgt.append(tgt.pop(0))
            left = " ".join(src).capitalize() + rng.choice([".", "?", "!", "..."])
            if i % 4 == 0:
                left = f"<i>{left}</i>" if i % 8 else "MARTHA: " + left
            f.write(json.dumps({"start": i * 2.4, "src": left, "tgt": " ".join(tgt) + "."}) + "\n")


@torch.no_grad()
def validate(model, batches, criterion):
    model.eval()
    loss = correct = total = 0
    for src, tgt in batches:
        logits, gold = model(src, tgt[:, :-1]), tgt[:, 1:]
        keep = gold != PAD
        loss += criterion(logits.flatten(0, 1), gold.flatten()).item() * keep.sum().item()
        correct += ((logits.argmax(-1) == gold) & keep).sum().item()
        total += keep.sum().item()
    model.train()
    return loss / total, correct / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pairs", type=int, default=6000)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--merges", type=int, default=400)
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--lr", type=float, default=7e-4)
    ap.add_argument("--log-every", type=int, default=25)
    args = ap.parse_args()
    torch.manual_seed(5)
    folder = tempfile.mkdtemp(prefix="subs_")
    train_path, val_path = os.path.join(folder, "train.jsonl.gz"), os.path.join(folder, "val.jsonl.gz")
    write_corpus(train_path, args.pairs, seed=1)
    write_corpus(val_path, 512, seed=1)

    with gzip.open(train_path, "rt", encoding="utf-8") as f:
        head = [json.loads(next(f)) for _ in range(min(3000, args.pairs))]
    src_bpe = BPE([c["src"] for c in head], args.merges)
    tgt_bpe = BPE([c["tgt"] for c in head], args.merges)
    print(f"vocabularies: {len(src_bpe)} / {len(tgt_bpe)}")

    train_set = SubtitlePairs(train_path, src_bpe, tgt_bpe)
    loader = DataLoader(train_set, batch_size=args.batch_size, num_workers=args.workers, collate_fn=collate)
    val_batches = list(DataLoader(SubtitlePairs(val_path, src_bpe, tgt_bpe, dropout=0.0), 128, collate_fn=collate))

    model = Translator(len(src_bpe), len(tgt_bpe))
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    step = 0
    for epoch in range(args.epochs):
        train_set.set_epoch(epoch)
        start, seen = time.time(), 0
        for src, tgt in loader:
            loss = criterion(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            seen += len(src)
            if step % args.log_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {seen / (time.time() - start):.0f} pairs/s", flush=True)
        val_loss, accuracy = validate(model, val_batches, criterion)
        print(f"epoch {epoch} val loss {val_loss:.4f} token accuracy {accuracy:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "epoch": epoch}, os.path.join(folder, "last.pt"))


if __name__ == "__main__":
    main()
