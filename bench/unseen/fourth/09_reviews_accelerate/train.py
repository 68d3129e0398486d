"""Review polarity with a small transformer, trained with accelerate."""
import argparse
import random
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset, Sampler

PAD, UNK = 0, 1


def make_reviews(n, n_words=3000):
    words = [f"w{i}" for i in range(n_words)]
    good, bad = words[:150], words[150:300]
    reviews = []
    for _ in range(n):
        label = random.randint(0, 1)
        mood = good if label else bad
        length = int(min(100, max(8, random.gauss(48, 18))))
        text = " ".join(
            random.choice(mood) if random.random() < 0.14 else random.choice(words)
            for _ in range(length)
        )
        reviews.append((text + " .", label))
    vocab = {w: i + 2 for i, w in enumerate(words)}
    return reviews, vocab


class Reviews(Dataset):
    """Tokenises on the fly, so that word dropout differs in each epoch."""

    def __init__(self, reviews, vocab, word_dropout=0.0):
        self.reviews, self.vocab, self.word_dropout = reviews, vocab, word_dropout

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, i):
        text, label = self.reviews[i]
        ids = [self.vocab.get(tok, UNK) for tok in text.lower().split()]
        if self.word_dropout:
            ids = [UNK if random.random() < self.word_dropout else t for t in ids]
        return ids, label


class BucketSampler(Sampler):
    """Batches of similar length, in a new random order each epoch."""

    def __init__(self, lengths, batch_size):
        self.lengths, self.batch_size = lengths, batch_size

    def __len__(self):
        return len(self.lengths) // self.batch_size

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i] + random.random())
        n = len(self) * self.batch_size
        batches = [order[i : i + self.batch_size] for i in range(0, n, self.batch_size)]
        random.shuffle(batches)
        return iter(batches)


def collate(batch):
    longest = max(len(ids) for ids, _ in batch)
    x = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids, _ in batch])
    return x, torch.tensor([label for _, label in batch])


class Classifier(nn.Module):
    def __init__(self, n_vocab, dim=128, heads=4, layers=2, max_len=128):
        super().__init__()
        self.tok = nn.Embedding(n_vocab, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.1, batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        pad = x == PAD
        h = self.enc(self.tok(x) + self.pos[: x.size(1)], src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1)
        return self.head((h * keep).sum(1) / keep.sum(1))


def evaluate(model, loader, accelerator):
    model.eval()
    hits, seen = 0, 0
    with torch.no_grad():
        for x, y in loader:
            pred, y = accelerator.gather_for_metrics((model(x).argmax(-1), y))
            hits += (pred == y).sum().item()
            seen += len(y)
    model.train()
    return hits / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", type=int, default=3600)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    accelerator = Accelerator(cpu=True)
    set_seed(5)
    reviews, vocab = make_reviews(args.reviews)
    n_val = 400
    val, train = reviews[:n_val], reviews[n_val:]
    lengths = [len(text.split()) for text, _ in train]
    val.sort(key=lambda r: len(r[0].split()))

    train_loader = DataLoader(
        Reviews(train, vocab, word_dropout=0.05),
        batch_sampler=BucketSampler(lengths, args.batch_size),
        collate_fn=collate,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )
    val_loader = DataLoader(Reviews(val, vocab), batch_size=100, collate_fn=collate)

    model = Classifier(len(vocab) + 2)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    sched = OneCycleLR(opt, max_lr=args.lr, total_steps=args.epochs * len(train_loader))
    model, opt, train_loader, val_loader, sched = accelerator.prepare(
        model, opt, train_loader, val_loader, sched
    )
    loss_fn = nn.CrossEntropyLoss()

    step, best, start = 0, 0.0, time.time()
    with tempfile.TemporaryDirectory() as tmp:
        for epoch in range(args.epochs):
            for x, y in train_loader:
                loss = loss_fn(model(x), y)
                opt.zero_grad()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                step += 1
                if step % 25 == 0:
                    lr = sched.get_last_lr()[0]
                    accelerator.print(f"step {step:5d} loss {loss.item():.4f} lr {lr:.2e}")
            acc = evaluate(model, val_loader, accelerator)
            accelerator.print(f"epoch {epoch}: val acc {acc:.4f}", flush=True)
            if acc > best:
                best = acc
                state = accelerator.unwrap_model(model).state_dict()
                accelerator.save(state, Path(tmp) / "best.pt")
    accelerator.print(f"done: best {best:.4f}, {step} steps in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
