"""Finds stars in telescope cut-outs as a set: a small conv + transformer detector with bipartite matching."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

SIZE, MAX_STARS, QUERIES = 64, 8, 14


def make_sky(count, seed=0):
    rng = np.random.default_rng(seed)
    grid = np.arange(SIZE, dtype=np.float32)
    n = rng.integers(1, MAX_STARS + 1, count)
    mask = np.arange(MAX_STARS) < n[:, None]
    pos = rng.uniform(4, SIZE - 4, (count, MAX_STARS, 2)).astype(np.float32)
    flux = rng.uniform(0.4, 1.0, (count, MAX_STARS)).astype(np.float32) * mask
    gy = np.exp(-((grid - pos[..., :1]) / 2.0) ** 2) * flux[..., None]
    gx = np.exp(-((grid - pos[..., 1:]) / 2.0) ** 2)
    sky = np.einsum("nsy,nsx->nyx", gy, gx, optimize=True)
    sky += rng.normal(0, 0.05, sky.shape).astype(np.float32)
    images = torch.from_numpy((sky.clip(0, 1) * 255).astype(np.uint8)).unsqueeze(1)
    stars = torch.from_numpy(np.concatenate([pos / SIZE, flux[..., None]], 2).astype(np.float32))
    return images, stars, torch.from_numpy(n)


class StarFinder(nn.Module):
    def __init__(self, width=128, layers=3):
        super().__init__()
        self.patch = nn.Conv2d(1, width, 8, stride=8)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (SIZE // 8) ** 2, width))
        enc = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        dec = nn.TransformerDecoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(enc, layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(dec, 2)
        self.queries = nn.Parameter(0.5 * torch.randn(1, QUERIES, width))
        self.score, self.star = nn.Linear(width, 1), nn.Linear(width, 3)

    def forward(self, x):
        tokens = self.encoder(self.patch(x).flatten(2).transpose(1, 2) + self.pos)
        h = self.decoder(self.queries.expand(len(x), -1, -1), tokens)
        return self.score(h).squeeze(-1), self.star(h).sigmoid()


@torch.no_grad()
def match(score, star, target, counts):
    """Cheapest assignment of queries to true stars, image by image."""
    cost = torch.cdist(star, target, p=1) - score.sigmoid().unsqueeze(-1)
    cost, counts = cost.numpy(), counts.tolist()
    rows, queries, truths = [], [], []
    for i, n in enumerate(counts):
        q, t = linear_sum_assignment(cost[i, :, :n])
        rows.extend([i] * n)
        queries.extend(q.tolist())
        truths.extend(t.tolist())
    return torch.tensor(rows), torch.tensor(queries), torch.tensor(truths)


def set_loss(score, star, target, counts):
    rows, queries, truths = match(score, star, target, counts)
    found = torch.zeros_like(score)
    found[rows, queries] = 1.0
    presence = F.binary_cross_entropy_with_logits(score, found)
    place = F.l1_loss(star[rows, queries], target[rows, truths])
    return presence + 5 * place, place


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=450)
    ap.add_argument("--batch", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(0)

    images, stars, counts = make_sky(6000)
    model = StarFinder()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-4, fused=True)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 100))

    step, began = 0, time.time()
    while step < args.steps:
        for idx in torch.randperm(len(images)).split(args.batch):
            x = images[idx].float().div_(255)
            score, star = model(x)
            loss, place = set_loss(score, star, stars[idx], counts[idx])
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            warm.step()
            step += 1
            print(f"step {step} loss {loss.item():.4f} place {place.item():.4f} norm {norm.item():.2f} "
                  f"lr {warm.get_last_lr()[0]:.1e} {time.time() - began:.1f}s", flush=True)
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
