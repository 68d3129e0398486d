"""Translate phrases between two made-up languages: GRU encoder-decoder with attention.

The target language reorders the words of every clause and inflects them, so the model
has to learn a dictionary and a small grammar.
"""
import argparse
import math
import random
import time
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 0, 1, 2


def make_pairs(n, words, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        src, tgt = [], []
        for _ in range(rng.randint(2, 4)):
            clause = [rng.randrange(words) for _ in range(rng.randint(2, 6))]
            src += clause
            tgt += [w if i else words + w % 20 for i, w in enumerate(reversed(clause))]
        pairs.append(([w + 3 for w in src], [w + 3 for w in tgt]))
    return pairs


class Phrases(Dataset):
    def __init__(self, pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        src, tgt = self.pairs[i]
        return torch.tensor(src + [EOS]), torch.tensor([BOS] + tgt + [EOS])


def collate(batch):
    src, tgt = zip(*batch)
    pad = nn.utils.rnn.pad_sequence
    return pad(src, batch_first=True, padding_value=PAD), pad(tgt, batch_first=True, padding_value=PAD)


class Encoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, src):
        memory, h = self.rnn(self.embed(src))
        return memory, torch.cat([h[0], h[1]], -1)


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, state, memory, mask):
        keys, values = memory
        e = self.score(torch.tanh(self.query(state).unsqueeze(1) + keys)).squeeze(-1)
        w = e.masked_fill(~mask, -1e9).softmax(-1)
        return torch.bmm(w.unsqueeze(1), values).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.attend = Attention(dim)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.out = nn.Linear(2 * dim, vocab)

    def step(self, token, state, memory, mask):
        context = self.attend(state, memory, mask)
        state = self.cell(torch.cat([self.embed(token), context], -1), state)
        return torch.cat([state, context], -1), state


class Translator(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.encoder = Encoder(vocab, dim)
        self.decoder = Decoder(vocab, dim)

    def forward(self, src, tgt_in):
        memory, state = self.encoder(src)
        memory = self.decoder.attend.key(memory), self.decoder.attend.value(memory)
        mask = src != PAD
        hidden = []
        for t in range(tgt_in.size(1)):
            h, state = self.decoder.step(tgt_in[:, t], state, memory, mask)
            hidden.append(h)
        return self.decoder.out(torch.stack(hidden, 1))

    @torch.no_grad()
    def greedy(self, src, max_len):
        memory, state = self.encoder(src)
        memory = self.decoder.attend.key(memory), self.decoder.attend.value(memory)
        mask = src != PAD
        token = torch.full((len(src),), BOS)
        result = []
        for _ in range(max_len):
            h, state = self.decoder.step(token, state, memory, mask)
            token = self.decoder.out(h).argmax(-1)
            result.append(token)
        return torch.stack(result, 1)


def ngrams(tokens, n):
    return Counter(tuple(tokens[i:i + n]) for i in range(len(tokens) - n + 1))


def bleu(hypotheses, references):
    """Corpus BLEU-4 with add-one smoothing."""
    hits, totals = [1] * 4, [1] * 4
    hyp_len = ref_len = 0
    for hyp, ref in zip(hypotheses, references):
        hyp_len, ref_len = hyp_len + len(hyp), ref_len + len(ref)
        for n in range(1, 5):
            h, r = ngrams(hyp, n), ngrams(ref, n)
            hits[n - 1] += sum((h & r).values())
            totals[n - 1] += sum(h.values())
    brevity = min(0.0, 1 - ref_len / max(hyp_len, 1))
    return math.exp(brevity + sum(math.log(a / b) for a, b in zip(hits, totals)) / 4)


def cut(ids):
    ids = [i for i in ids if i != BOS]
    return ids[:ids.index(EOS)] if EOS in ids else ids


def sample_bleu(model, src, tgt):
    """BLEU of what the model would say right now, without teacher forcing."""
    model.eval()
    guess = model.greedy(src, tgt.size(1) + 5).tolist()
    model.train()
    return bleu([cut(g) for g in guess], [cut(t) for t in tgt.tolist()])


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = count = 0
    for src, tgt in loader:
        logits = model(src, tgt[:, :-1])
        total += F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD,
                                 reduction="sum").item()
        count += (tgt[:, 1:] != PAD).sum().item()
    model.train()
    return total / count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--words", type=int, default=250)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--log-every", type=int, default=20)
    args = p.parse_args()
    torch.manual_seed(1)

    train = Phrases(make_pairs(args.steps * args.batch_size, args.words, 1))
    loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate, drop_last=True)
    val_loader = DataLoader(Phrases(make_pairs(96, args.words, 2)), 48, collate_fn=collate)
    model = Translator(args.words + 23, args.dim)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    start, smooth = time.time(), None
    for step, (src, tgt) in enumerate(loader, 1):
        logits = model(src, tgt[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        opt.step()
        if step % args.log_every == 0:
            score = sample_bleu(model, src, tgt)
            smooth = score if smooth is None else 0.9 * smooth + 0.1 * score
            print(f"step {step} loss {loss.item():.3f} train BLEU {100 * smooth:.1f}", flush=True)
    print(f"val loss {validate(model, val_loader):.3f}, {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
