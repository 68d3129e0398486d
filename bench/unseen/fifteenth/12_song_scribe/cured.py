"""Transcribes bird song recordings (mel frames) into sequences of syllable types with an attention decoder."""
import argparse
import logging
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("song_scribe")
PAD, BOS, EOS = 0, 1, 2
N_SPECIAL = 3


class SongSynth:
    """Draws songs from a first-order syntax; each syllable is a chirp on the mel axis with its own contour."""

    def __init__(self, n_syllables, n_mels, seed):
        rng = np.random.default_rng(seed)
        self.n, self.n_mels = n_syllables, n_mels
        self.syntax = rng.dirichlet(np.full(n_syllables, 0.3), size=n_syllables)
        self.start = rng.uniform(4, n_mels - 5, n_syllables)
        self.sweep = rng.uniform(-10, 10, n_syllables)
        self.bend = rng.uniform(-6, 6, n_syllables)
        self.frames = rng.integers(5, 10, n_syllables)

    def draw(self, rng):
        length = int(rng.integers(10, 17))
        seq = [int(rng.integers(self.n))]
        while len(seq) < length:
            seq.append(int(rng.choice(self.n, p=self.syntax[seq[-1]])))
        axis = np.arange(self.n_mels)
        parts = []
        for s in seq:
            n = int(self.frames[s] + rng.integers(-1, 2))
            u = np.linspace(0, 1, n)
            centre = self.start[s] + self.sweep[s] * u + self.bend[s] * np.sin(math.pi * u) + rng.normal(0, 0.4)
            parts.append(np.exp(-0.5 * ((axis[None] - centre[:, None]) / 1.3) ** 2) * rng.uniform(0.7, 1.2))
            parts.append(np.zeros((int(rng.integers(1, 4)), self.n_mels)))
        mel = np.concatenate(parts)
        mel = mel + rng.normal(0, 0.12, mel.shape)
        return mel.astype(np.float32), np.array(seq, dtype=np.int64) + N_SPECIAL


class SongDataset(Dataset):
    def __init__(self, synth, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [tuple(map(torch.from_numpy, synth.draw(rng))) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    mels, labels = zip(*items)
    lengths = torch.tensor([len(m) for m in mels])
    inputs = pad_sequence([F.pad(y, (1, 0), value=BOS) for y in labels], batch_first=True, padding_value=PAD)
    targets = pad_sequence([F.pad(y, (0, 1), value=EOS) for y in labels], batch_first=True, padding_value=PAD)
    return pad_sequence(mels, batch_first=True), lengths, inputs, targets


class Encoder(nn.Module):
    def __init__(self, n_mels, hidden):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(n_mels, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.rnn = nn.GRU(hidden, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, mel):
        out, _ = self.rnn(self.front(mel))
        return out


class AdditiveAttention(nn.Module):
    def __init__(self, enc_dim, dec_dim, attn_dim):
        super().__init__()
        self.key = nn.Linear(enc_dim, attn_dim, bias=False)
        self.query = nn.Linear(dec_dim, attn_dim)
        self.score = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, state, memory, keys, mask):
        energy = torch.tanh(keys + self.query(state).unsqueeze(1))
        logits = self.score(energy).squeeze(-1).masked_fill(~mask, -1e4)
        weights = logits.softmax(dim=-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Decoder(nn.Module):
    def __init__(self, vocab, enc_dim, hidden, attn_dim, emb=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.attention = AdditiveAttention(enc_dim, hidden, attn_dim)
        self.cell = nn.GRUCell(emb + enc_dim, hidden)
        self.bridge = nn.Linear(enc_dim, hidden)
        self.out = nn.Sequential(nn.Linear(hidden + enc_dim, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, vocab))

    def init_state(self, memory, mask):
        mean = (memory * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return torch.tanh(self.bridge(mean))

    def forward(self, memory, mask, tokens):
        state = self.init_state(memory, mask)
        keys = self.attention.key(memory)
        embedded = self.embed(tokens)
        states = []
        for t in range(tokens.size(1)):
            context, _ = self.attention(state, memory, keys, mask)
            state = self.cell(torch.cat([embedded[:, t], context], dim=-1), state)
            states.append(torch.cat([state, context], dim=-1))
        return self.out(torch.stack(states, dim=1))

    @torch.no_grad()
    def greedy(self, memory, mask, max_len):
        state = self.init_state(memory, mask)
        keys = self.attention.key(memory)
        token = torch.full((memory.size(0),), BOS, dtype=torch.long)
        result = []
        for _ in range(max_len):
            context, _ = self.attention(state, memory, keys, mask)
            state = self.cell(torch.cat([self.embed(token), context], dim=-1), state)
            token = self.out(torch.cat([state, context], dim=-1)).argmax(-1)
            result.append(token)
        return torch.stack(result, dim=1)


class SongScribe(nn.Module):
    def __init__(self, n_mels, vocab, enc_hidden, dec_hidden, attn_dim):
        super().__init__()
        self.encoder = Encoder(n_mels, enc_hidden)
        self.decoder = Decoder(vocab, enc_hidden, dec_hidden, attn_dim)

    @staticmethod
    def mask(lengths, width):
        return torch.arange(width)[None] < lengths[:, None]

    def forward(self, mel, lengths, tokens):
        return self.decoder(self.encoder(mel), self.mask(lengths, mel.size(1)), tokens)

    def transcribe(self, mel, lengths, max_len=18):
        return self.decoder.greedy(self.encoder(mel), self.mask(lengths, mel.size(1)), max_len)


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
        self.step = 0

    def train_epoch(self, loader):
        self.model.train()
        running, seen = torch.zeros(()), 0
        for mel, lengths, inputs, targets in loader:
            logits = self.model(mel, lengths, inputs)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            running += loss.detach()
            seen += 1
            self.step += 1
            if self.step % 25 == 0:
                log.info("step %d loss %.4f", self.step, running.item() / seen)
                running, seen = torch.zeros(()), 0
            if self.step >= self.args.steps:
                return

    @torch.inference_mode()
    def validate(self, loader):
        self.model.eval()
        hit = total = 0
        for mel, lengths, _, targets in loader:
            guess = self.model.transcribe(mel, lengths, max_len=targets.size(1))
            keep = targets != PAD
            hit += ((guess == targets) & keep).sum().item()
            total += keep.sum().item()
        return hit / total

    def fit(self, train_loader, val_loader):
        while self.step < self.args.steps:
            start = time.time()
            self.train_epoch(train_loader)
            acc = self.validate(val_loader)
            log.info("step %d syllable accuracy %.3f (%.1fs)", self.step, acc, time.time() - start)
            torch.save({"model": self.model.state_dict(), "step": self.step}, self.args.out / "last.pt")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--songs", type=int, default=900)
    p.add_argument("--n-mels", type=int, default=48)
    p.add_argument("--syllables", type=int, default=30)
    p.add_argument("--enc-hidden", type=int, default=320)
    p.add_argument("--dec-hidden", type=int, default=160)
    p.add_argument("--attn-dim", type=int, default=128)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "song_scribe")
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    synth = SongSynth(args.syllables, args.n_mels, args.seed)
    train = SongDataset(synth, args.songs, args.seed + 1)
    val = SongDataset(synth, 64, args.seed + 2)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    val_loader = DataLoader(val, 48, collate_fn=collate)
    model = SongScribe(args.n_mels, args.syllables + N_SPECIAL, args.enc_hidden, args.dec_hidden, args.attn_dim)
    log.info("%d songs, %.2fM parameters", len(train), sum(q.numel() for q in model.parameters()) / 1e6)
    Trainer(model, args).fit(train_loader, val_loader)


if __name__ == "__main__":
    main()
