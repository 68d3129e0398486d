"""Metric learning for fabric retrieval: two swatches of one weave should land close to each other."""
import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset


class WeaveLibrary:
    """Procedural weaves: a tie-up pattern repeated over the swatch, tinted by warp and weft yarn colours."""

    def __init__(self, n_weaves, size, seed):
        rng = np.random.default_rng(seed)
        self.size = size
        canvas = size + 16
        self.cloth = torch.empty(n_weaves, 3, canvas, canvas, dtype=torch.uint8)
        for k in range(n_weaves):
            period = int(rng.integers(3, 9))
            tie = rng.random((period, period)) < rng.uniform(0.3, 0.7)
            thick = int(rng.integers(1, 4))
            tile = np.kron(tie, np.ones((thick, thick)))
            reps = canvas // len(tile) + 1
            up = np.tile(tile, (reps, reps))[:canvas, :canvas, None]
            warp, weft = rng.uniform(40, 215, (2, 3))
            img = up * warp + (1 - up) * weft + rng.normal(0, 8, (canvas, canvas, 1))
            self.cloth[k] = torch.from_numpy(np.clip(img, 0, 255).astype(np.uint8)).permute(2, 0, 1)

    def __len__(self):
        return len(self.cloth)


class SwatchPairs(Dataset):
    def __init__(self, library, ids, seed):
        self.library, self.ids = library, ids
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.ids)

    def crop(self, cloth):
        y, x = self.rng.integers(0, 17, 2)
        s = self.library.size
        patch = cloth[:, y:y + s, x:x + s]
        if self.rng.random() < 0.5:
            patch = patch.flip(2)
        return patch

    def __getitem__(self, i):
        k = int(self.ids[i])
        cloth = self.library.cloth[k]
        return self.crop(cloth), self.crop(cloth), k


def lighting(images):
    """Float conversion with a random gain and tint for each swatch of the batch."""
    x = images.float().div_(127.5).sub_(1.0)
    n = len(x)
    return x * torch.empty(n, 1, 1, 1).uniform_(0.75, 1.25) + torch.empty(n, 3, 1, 1).uniform_(-0.15, 0.15)


class SwatchEncoder(nn.Module):
    def __init__(self, dim, width=16):
        super().__init__()
        layers, c = [], 3
        for mult in (1, 2, 4):
            layers += [nn.Conv2d(c, width * mult, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width * mult), nn.ReLU(inplace=True)]
            c = width * mult
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(c * 4, dim))

    def forward(self, x):
        return F.normalize(self.head(self.body(x)), dim=-1)


class EmbeddingQueue(nn.Module):
    """Ring of the latest embeddings and their weave ids, used as additional references."""

    def __init__(self, size, dim):
        super().__init__()
        self.register_buffer("feats", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("ids", torch.full((size,), -1, dtype=torch.long))
        self.cursor = 0

    @torch.no_grad()
    def push(self, feats, ids):
        slots = (torch.arange(len(feats)) + self.cursor) % len(self.feats)
        self.feats[slots] = feats
        self.ids[slots] = ids
        self.cursor = int(slots[-1]) + 1


class QueueContrast(nn.Module):
    """InfoNCE of each anchor against its partner, the rest of the batch and the queue."""

    def __init__(self, queue, temperature):
        super().__init__()
        self.queue, self.temperature = queue, temperature

    def forward(self, anchor, partner, ids):
        refs = torch.cat([partner, self.queue.feats])
        ref_ids = torch.cat([ids, self.queue.ids])
        sim = (anchor @ refs.T) / self.temperature
        same = ids[:, None] == ref_ids[None]
        same[:, :len(ids)].fill_diagonal_(False)
        sim = sim.masked_fill(same, -1e4)
        loss = F.cross_entropy(sim, torch.arange(len(ids)))
        self.queue.push(partner.detach(), ids)
        return loss


@torch.inference_mode()
def recall_at_1(model, loader):
    model.eval()
    left, right = [], []
    for a, b, _ in loader:
        left.append(model(a.float().div(127.5).sub(1.0)))
        right.append(model(b.float().div(127.5).sub(1.0)))
    nearest = (torch.cat(left) @ torch.cat(right).T).argmax(1)
    model.train()
    return (nearest == torch.arange(len(nearest))).float().mean().item()


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--weaves", type=int, default=1800)
    p.add_argument("--size", type=int, default=48)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--queue", type=int, default=448)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--temperature", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=21)
    p.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "weave_match")
    return p.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(args.seed)
    library = WeaveLibrary(args.weaves, args.size, args.seed)
    ids = torch.randperm(args.weaves)
    cut = args.weaves // 8
    train_loader = DataLoader(SwatchPairs(library, ids[cut:], args.seed), args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(SwatchPairs(library, ids[:cut], args.seed + 1), 128)
    model = SwatchEncoder(args.dim)
    criterion = QueueContrast(EmbeddingQueue(args.queue, args.dim), args.temperature)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    model, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, val_loader, scheduler)

    for epoch in range(args.epochs):
        total = torch.zeros(())
        for first, second, weave in train_loader:
            both = model(lighting(torch.cat([first, second])))
            anchor, partner = both.chunk(2)
            loss = criterion(anchor, partner, weave)
            optimizer.zero_grad(set_to_none=True)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            total += loss.detach()
        recall = recall_at_1(model, val_loader)
        accelerator.print(f"epoch {epoch:2d} loss {total.item() / len(train_loader):.4f} recall@1 {recall:.3f}", flush=True)
        args.out.mkdir(parents=True, exist_ok=True)
        accelerator.save({"model": accelerator.unwrap_model(model).state_dict(), "epoch": epoch}, args.out / "encoder.pt")


if __name__ == "__main__":
    main()
