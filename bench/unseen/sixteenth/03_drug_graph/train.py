# Link prediction in a drug repurposing graph: head entity and relation -> tail entity,
# scored against negatives drawn by degree to the power 0.75.
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--entities", type=int, default=24000)
parser.add_argument("--triples", type=int, default=150000)
parser.add_argument("--dim", type=int, default=128)
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--negatives", type=int, default=64)
parser.add_argument("--batch-size", type=int, default=192)
parser.add_argument("--steps", type=int, default=700)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--mlp-lr", type=float, default=1e-3)
parser.add_argument("--eval-every", type=int, default=350)
parser.add_argument("--log-every", type=int, default=25)
parser.add_argument("--seed", type=int, default=3)
parser.add_argument("--out", default="runs_drug")
args = parser.parse_args()

torch.manual_seed(args.seed)
os.makedirs(args.out, exist_ok=True)

RELATIONS = ["binds", "inhibits", "treats", "palliates", "causes_side_effect", "expressed_in",
             "associates", "upregulates", "downregulates", "resembles", "interacts", "participates"]


def make_graph(n_entities, n_triples, seed):
    """Entities belong to communities; a relation maps communities on communities, hubs are popular."""
    rng = np.random.default_rng(seed)
    n_comm = 60
    comm = rng.integers(0, n_comm, n_entities)
    order = np.argsort(comm, kind="stable")
    starts = np.searchsorted(comm[order], np.arange(n_comm + 1))
    mapping = rng.integers(0, n_comm, (len(RELATIONS), n_comm))
    head = (n_entities * rng.random(n_triples) ** 1.6).astype(np.int64)
    rel = rng.integers(0, len(RELATIONS), n_triples)
    target = mapping[rel, comm[head]]
    span = starts[target + 1] - starts[target]
    tail = order[starts[target] + (span * rng.random(n_triples) ** 2.5).astype(np.int64)]
    return np.stack([head, rel, tail], axis=1)


class TripleSet(Dataset):
    def __init__(self, triples, n_entities, n_negatives, seed):
        self.triples = triples
        self.n_entities = n_entities
        self.n_negatives = n_negatives
        degree = np.bincount(triples[:, 0], minlength=n_entities) + np.bincount(triples[:, 2], minlength=n_entities)
        weight = (degree + 1.0) ** 0.75
        self.prob = weight / weight.sum()
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.triples)

    def __getitem__(self, i):
        head, rel, tail = self.triples[i]
        negatives = self.rng.choice(self.n_entities, size=self.n_negatives, p=self.prob)
        return head, rel, tail, negatives


def collate(items):
    head, rel, tail, negatives = zip(*items)
    return (torch.from_numpy(np.array(head)), torch.from_numpy(np.array(rel)),
            torch.from_numpy(np.array(tail)), torch.from_numpy(np.stack(negatives)))


class TailPredictor(nn.Module):
    def __init__(self, n_entities, n_relations, dim, hidden):
        super().__init__()
        self.entity = nn.Embedding(n_entities, dim, sparse=True)
        self.relation = nn.Embedding(n_relations, dim)
        self.mlp = nn.Sequential(
            nn.Linear(3 * dim, hidden), nn.LayerNorm(hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, dim))
        nn.init.normal_(self.entity.weight, std=0.1)

    def query(self, head, rel):
        h, r = self.entity(head), self.relation(rel)
        return self.mlp(torch.cat([h, r, h * r], dim=-1)) + h * r

    def forward(self, head, rel, tail, negatives):
        q = self.query(head, rel)
        candidates = self.entity(torch.cat([tail[:, None], negatives], dim=1))
        return torch.bmm(candidates, q.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def mean_reciprocal_rank(model, triples):
    model.eval()
    head, rel, tail = (torch.from_numpy(triples[:, c].copy()) for c in range(3))
    ranks = []
    for lo in range(0, len(head), 128):
        sl = slice(lo, lo + 128)
        scores = model.query(head[sl], rel[sl]) @ model.entity.weight.T
        truth = scores.gather(1, tail[sl, None])
        ranks.append((scores > truth).sum(1) + 1)
    model.train()
    return (1.0 / torch.cat(ranks).float()).mean().item()


triples = make_graph(args.entities, args.triples, args.seed)
held_out, triples = triples[:512], triples[512:]
train_set = TripleSet(triples, args.entities, args.negatives, args.seed)
loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True, collate_fn=collate)

model = TailPredictor(args.entities, len(RELATIONS), args.dim, args.hidden)
dense = [p for n, p in model.named_parameters() if n != "entity.weight"]
opt_entity = torch.optim.Adagrad([model.entity.weight], lr=args.lr)
opt_dense = torch.optim.AdamW(dense, lr=args.mlp_lr)
schedule = torch.optim.lr_scheduler.LinearLR(opt_dense, 0.1, 1.0, total_iters=100)
print(f"{len(triples)} triples, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")

step, best, started = 0, 0.0, time.time()
running = torch.zeros(())
history = open(os.path.join(args.out, "history.jsonl"), "w")

while step < args.steps:
    for head, rel, tail, negatives in loader:
        scores = model(head, rel, tail, negatives)
        collision = negatives == tail[:, None]
        scores = torch.cat([scores[:, :1], scores[:, 1:].masked_fill(collision, -1e4)], dim=1)
        loss = F.cross_entropy(scores, torch.zeros(len(head), dtype=torch.long))

        opt_entity.zero_grad(set_to_none=True)
        opt_dense.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(dense, 1.0)
        opt_entity.step()
        opt_dense.step()
        schedule.step()
        running += loss.detach()
        step += 1

        if step % args.log_every == 0:
            mean = running.item() / args.log_every
            running.zero_()
            history.write(json.dumps({"step": step, "loss": mean}) + "\n")
            print(f"step {step:5d}  loss {mean:.5f}  {step / (time.time() - started):.1f} steps/s", flush=True)

        if step % args.eval_every == 0:
            mrr = mean_reciprocal_rank(model, held_out)
            history.write(json.dumps({"step": step, "mrr": mrr}) + "\n")
            print(f"step {step:5d}  held-out MRR {mrr:.4f}", flush=True)
            if mrr > best:
                best = mrr
                torch.save({"model": model.state_dict(), "step": step, "mrr": mrr},
                           os.path.join(args.out, "best.pt"))

        if step >= args.steps:
            break

history.close()
print(f"done, best MRR {best:.4f}")
