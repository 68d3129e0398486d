"""Active learning of a plankton classifier on image features: label a few per round,
choose the next ones by the margin of the current classifier."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Subset

CLASSES = 40


class PlanktonFeatures(Dataset):
    """Pooled features of a frozen image encoder, with the label an expert would give."""

    def __init__(self, n, dim=320, seed=0):
        rng = np.random.default_rng(seed)
        basis = np.random.default_rng(7).standard_normal((CLASSES, 24), dtype=np.float32)
        lift = np.random.default_rng(8).standard_normal((24, dim), dtype=np.float32)
        weight = 1.0 / np.arange(1, CLASSES + 1) ** 0.7
        self.y = rng.choice(CLASSES, size=n, p=weight / weight.sum())
        z = basis[self.y] + 0.9 * rng.standard_normal((n, 24), dtype=np.float32)
        self.x = np.tanh(z @ lift / 5) + 0.25 * rng.standard_normal((n, dim), dtype=np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def collate(items):
    x, y = zip(*items)
    return torch.from_numpy(np.stack(x)), torch.from_numpy(np.array(y))


class Classifier(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.2),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.2),
            nn.Linear(width, CLASSES))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def margins(model, dataset):
    model.eval()
    out = []
    for x, _ in DataLoader(dataset, batch_size=512, collate_fn=collate):
        top = model(x).softmax(1).topk(2, dim=1).values
        out.append(top[:, 0] - top[:, 1])
    model.train()
    return torch.cat(out)


def endless(dataset, batch_size):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True,
                        collate_fn=collate)
    while True:
        yield from loader


def after_round(known, unknown, chosen):
    """The chosen items of the pool move to the labelled set."""
    keep = np.ones(len(unknown), dtype=bool)
    keep[chosen] = False
    return np.concatenate([known, unknown[chosen]]), unknown[keep]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--steps-per-round", type=int, default=12)
    ap.add_argument("--start", type=int, default=1000)
    ap.add_argument("--sessions", type=int, default=120)
    ap.add_argument("--ask", type=int, default=16)
    ap.add_argument("--candidates", type=int, default=512)
    ap.add_argument("--batch", type=int, default=192)
    ap.add_argument("--width", type=int, default=384)
    ap.add_argument("--lr", type=float, default=6e-4)
    args = ap.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    base = PlanktonFeatures(16_000)
    test = PlanktonFeatures(4_000, seed=1)
    test_x, test_y = torch.from_numpy(test.x), torch.from_numpy(test.y)

    order = rng.permutation(len(base)).tolist()
    known, unknown = np.array(order[: args.start]), np.array(order[args.start:])
    for _ in range(args.sessions):                    # labelled in earlier sessions, at random
        chosen = rng.choice(len(unknown), size=args.ask, replace=False)
        known, unknown = after_round(known, unknown, chosen)
    labelled = Subset(base, known.tolist())

    model = Classifier(base.x.shape[1], args.width)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)

    batches = endless(labelled, args.batch)
    running, t0 = 0.0, time.time()
    for step in range(1, args.steps + 1):
        x, y = next(batches)
        loss = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()

        if step % args.steps_per_round == 0:
            # ask the expert about the least certain of some candidates
            some = rng.choice(len(unknown), size=args.candidates, replace=False)
            score = margins(model, Subset(base, unknown[some].tolist()))
            chosen = some[score.topk(args.ask, largest=False).indices.numpy()]
            known, unknown = after_round(known, unknown, chosen)
            labelled = Subset(base, known.tolist())
            batches = endless(labelled, args.batch)

        if step % 200 == 0:
            model.eval()
            with torch.no_grad():
                acc = (model(test_x).argmax(1) == test_y).float().mean().item()
            model.train()
            print(f"step {step:5d}  labelled {len(labelled):6d}  loss {running / 200:.4f}  "
                  f"test acc {acc:.4f}  {1000 * (time.time() - t0) / step:.1f} ms/step")
            running = 0.0


if __name__ == "__main__":
    main()
