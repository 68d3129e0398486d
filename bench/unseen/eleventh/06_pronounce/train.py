"""Spelling to pronunciation: an encoder-decoder with attention and input feeding,
trained with accelerate and gradient accumulation.  The lexicon is made up by
spelling rules with context (digraphs, silent letters, voicing).
"""
import argparse
import json
import random
import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGRAPHS = {"ch": 27, "sh": 28, "th": 29, "ph": 6, "ng": 30, "ck": 11, "ee": 31, "oo": 32}
PAD, BOS, EOS = 0, 40, 41
N_PHONES = 42


def pronounce(word):
    out, i = [], 0
    while i < len(word):
        if word[i:i + 2] in DIGRAPHS:
            out.append(DIGRAPHS[word[i:i + 2]])
            i += 2
            continue
        c = word[i]
        if c == "e" and i == len(word) - 1:
            break
        if c == "c" and word[i + 1:i + 2] in ("e", "i"):
            c = "s"
        elif c == "s" and 0 < i < len(word) - 1 and word[i - 1] in "aeiou" and word[i + 1] in "aeiou":
            c = "z"
        out.append(LETTERS.index(c) + 1)
        i += 1
    return out


def make_lexicon(n, seed=0):
    rng = random.Random(seed)
    onsets = list("bcdfghklmnprstvz") + ["ch", "sh", "th", "ph", "st", "tr"]
    nuclei = list("aeiou") + ["ee", "oo", "ai"]
    codas = ["", "", "n", "s", "t", "ng", "ck", "l", "r"]
    pairs = []
    for _ in range(n):
        word = "".join(rng.choice(onsets) + rng.choice(nuclei) + rng.choice(codas)
                       for _ in range(rng.randint(3, 5))) + rng.choice(["", "e"])
        spell = torch.tensor([LETTERS.index(c) + 1 for c in word])
        pairs.append((spell, torch.tensor([BOS] + pronounce(word) + [EOS])))
    return pairs


def collate(items):
    spell = pad_sequence([a for a, _ in items], batch_first=True)
    phones = pad_sequence([b for _, b in items], batch_first=True)
    return spell, torch.tensor([len(a) for a, _ in items]), phones


class LengthBatches:
    """Batches of words of about the same length, in random order."""

    def __init__(self, pairs, batch):
        self.lengths = torch.tensor([(len(b), len(a)) for a, b in pairs])
        self.batch = batch

    def __len__(self):
        return len(self.lengths) // self.batch

    def __iter__(self):
        order = torch.randperm(len(self.lengths))
        key = self.lengths[order, 0] * 64 + self.lengths[order, 1]
        order = order[key.argsort(stable=True)]
        batches = order[:len(self) * self.batch].view(-1, self.batch)
        for n in torch.randperm(len(batches)).tolist():
            yield batches[n].tolist()


class Speller(nn.Module):
    def __init__(self, hidden=224, emb=96):
        super().__init__()
        self.emb_in = nn.Embedding(27, emb, padding_idx=PAD)
        self.emb_out = nn.Embedding(N_PHONES, emb, padding_idx=PAD)
        self.encoder = nn.LSTM(emb, hidden // 2, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(emb + hidden, hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, N_PHONES)

    def forward(self, spell, lengths, phones):
        packed = pack_padded_sequence(self.emb_in(spell), lengths, batch_first=True, enforce_sorted=False)
        memory, (h, c) = self.encoder(packed)
        memory, _ = pad_packed_sequence(memory, batch_first=True)
        blocked = (spell == PAD).unsqueeze(1)
        h, c = torch.cat([h[0], h[1]], 1), torch.cat([c[0], c[1]], 1)
        fed = torch.zeros_like(h)
        states = []
        for e in self.emb_out(phones).unbind(1):
            h, c = self.cell(torch.cat([e, fed], 1), (h, c))
            score = torch.bmm(self.query(h).unsqueeze(1), memory.transpose(1, 2))
            weight = score.masked_fill(blocked, float("-inf")).softmax(-1)
            context = torch.bmm(weight, memory).squeeze(1)
            fed = torch.tanh(self.mix(torch.cat([h, context], 1)))
            states.append(fed)
        return self.out(torch.stack(states, 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=600, help="batches")
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(0)

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = Speller()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    lexicon = make_lexicon(20000)
    loader = DataLoader(lexicon, batch_sampler=LengthBatches(lexicon, args.batch), collate_fn=collate)
    model, opt, loader = accelerator.prepare(model, opt, loader)

    log = tempfile.NamedTemporaryFile("w", suffix=".jsonl")
    step, start = 0, time.time()
    while step < args.steps:
        for spell, lengths, phones in loader:
            with accelerator.accumulate(model):
                logits = model(spell, lengths, phones[:, :-1])
                target = phones[:, 1:]
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            step += 1
            right = ((logits.argmax(-1) == target) & (target != PAD)).sum() / (target != PAD).sum()
            record = {"step": step, "loss": loss.item(), "phone_acc": right.item(),
                      "lr": opt.param_groups[0]["lr"], "sec": round(time.time() - start, 2)}
            log.write(json.dumps(record) + "\n")
            log.flush()
            if step % 25 == 0:
                print(record, flush=True)
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
