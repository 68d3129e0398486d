"""Knowledge-graph completion with ComplEx embeddings and negatives shared inside the batch.

python train.py   (or accelerate launch train.py)
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed


def make_graph(entities, relations, triples, seed=0):
    """Entities live in communities; a relation links one community to another."""
    rng = np.random.default_rng(seed)
    groups = 200
    per_group = entities // groups
    head_group = rng.integers(0, groups, triples)
    rel = rng.integers(0, relations, triples)
    shift = rng.integers(1, groups, relations)
    tail_group = (head_group + shift[rel]) % groups
    # popular members of a community are linked more often
    head = head_group * per_group + (per_group * rng.random(triples) ** 1.6).astype(np.int64)
    tail = tail_group * per_group + (per_group * rng.random(triples) ** 1.6).astype(np.int64)
    return torch.from_numpy(np.stack([head, rel, tail], 1))


class ComplEx(nn.Module):
    def __init__(self, entities, relations, dim):
        super().__init__()
        self.entity = nn.Embedding(entities, 2 * dim)
        self.relation = nn.Embedding(relations, 2 * dim)
        nn.init.normal_(self.entity.weight, std=0.1)
        nn.init.normal_(self.relation.weight, std=0.3)

    @staticmethod
    def times(a, b):
        ar, ai = a.chunk(2, -1)
        br, bi = b.chunk(2, -1)
        return torch.cat([ar * br - ai * bi, ar * bi + ai * br], -1)

    def forward(self, head, rel, tail, negatives):
        k = head.shape[0]
        rows = self.entity(torch.cat([head, tail, negatives]))
        h, t, n = rows[:k], rows[k:2 * k], rows[2 * k:]
        query = self.times(h, self.relation(rel))
        positive = (query * t).sum(-1)
        negative = query @ n.T
        reg = (h.square().mean() + t.square().mean()) / 2
        return positive, negative, reg


def batches(triples, size):
    while True:
        order = torch.randperm(len(triples))
        for i in range(0, len(order) - size + 1, size):
            yield triples[order[i:i + size]].unbind(1)


@torch.no_grad()
def mean_rank(model, triples, pool):
    """Rank of the true tail among a pool of sampled entities."""
    h, r, t = triples.unbind(1)
    positive, negative, _ = model(h, r, t, pool)
    return ((negative > positive.unsqueeze(1)).sum(1) + 1).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=750)
    ap.add_argument("--entities", type=int, default=160_000)
    ap.add_argument("--relations", type=int, default=60)
    ap.add_argument("--triples", type=int, default=1_200_000)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--batch", type=int, default=1024)
    ap.add_argument("--negatives", type=int, default=1024)
    ap.add_argument("--lr", type=float, default=0.01)
    args = ap.parse_args()

    set_seed(0)
    accelerator = Accelerator(cpu=True)
    triples = make_graph(args.entities, args.relations, args.triples)
    held_out, triples = triples[:1000], triples[1000:]
    pool = torch.randint(args.entities, (1000,))

    model = ComplEx(args.entities, args.relations, args.dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)

    stream = batches(triples, args.batch)
    running = 0.0
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        head, rel, tail = next(stream)
        negatives = torch.randint(args.entities, (args.negatives,))
        positive, negative, reg = model(head, rel, tail, negatives)
        loss = (F.softplus(-positive).mean()
                + F.softplus(negative).mean()
                + 1e-3 * reg)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()

        running += loss.item()
        if step % 50 == 0:
            took = time.perf_counter() - start
            accelerator.print(f"step {step:5d}  loss {running / 50:.4f}  "
                              f"{1000 * took / step:.1f} ms/step")
            running = 0.0
        if step % 250 == 0:
            model.eval()
            accelerator.print(f"  mean rank of 1000: {mean_rank(model, held_out, pool):.1f}")
            model.train()

    accelerator.print(f"done: {args.steps} steps in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
