"""Dual-encoder retrieval with in-batch negatives gathered over all ranks.

    torchrun --nproc-per-node 2 train.py
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, QUERY_LEN, DOC_LEN = 1500, 12, 48


def make_corpus(n, seed):
    """Documents are bags of topic words plus common words; queries are a noisy excerpt of a document."""
    gen = torch.Generator().manual_seed(seed)
    topic = torch.randint(0, 150, (n, 1), generator=gen)
    special = 300 + topic * 8 + torch.randint(0, 8, (n, DOC_LEN), generator=gen)
    common = torch.randint(1, 300, (n, DOC_LEN), generator=gen)
    docs = torch.where(torch.rand(n, DOC_LEN, generator=gen) < 0.4, special, common)
    pick = torch.rand(n, DOC_LEN, generator=gen).argsort(1)[:, :QUERY_LEN]
    queries = docs.gather(1, pick)
    noise = torch.randint(1, 300, queries.shape, generator=gen)
    return torch.where(torch.rand(queries.shape, generator=gen) < 0.2, noise, queries), docs


class Shard:
    """This rank's batches of every epoch, taken straight from the token tensors."""

    def __init__(self, queries, docs, batch, rank, world, seed):
        self.queries, self.docs = queries, docs
        self.batch, self.rank, self.world, self.seed = batch, rank, world, seed
        self.steps = len(docs) // (batch * world)

    def epoch(self, number):
        gen = torch.Generator().manual_seed(self.seed + number)
        perm = torch.randperm(len(self.docs), generator=gen)[self.rank::self.world]
        for index in perm[:self.steps * self.batch].split(self.batch):
            yield self.queries[index], self.docs[index]


class Encoder(nn.Module):
    def __init__(self, dim, layers, out):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.randn(DOC_LEN, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 3 * dim, dropout=0.0, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.proj = nn.Linear(dim, out, bias=False)

    def forward(self, ids):
        h = self.layers(self.embed(ids) + self.pos[:ids.shape[1]])
        return F.normalize(self.proj(h.mean(1)), dim=-1)


class DualEncoder(nn.Module):
    def __init__(self, dim, layers, out):
        super().__init__()
        self.encoder = Encoder(dim, layers, out)
        self.log_scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, queries, docs):
        return self.encoder(queries), self.encoder(docs), self.log_scale.exp()


def gather_negatives(local, rank, world):
    """Embeddings of all ranks, ours first; only ours carries a gradient."""
    everyone = [torch.empty_like(local) for _ in range(world)]
    dist.all_gather(everyone, local.detach())
    return torch.cat([local] + [e for r, e in enumerate(everyone) if r != rank])


def contrastive_loss(q, d, scale, rank, world):
    target = torch.arange(len(q))
    both = gather_negatives(torch.stack([q, d], 1), rank, world)
    forward = F.cross_entropy(scale * q @ both[:, 1].T, target)
    backward = F.cross_entropy(scale * d @ both[:, 0].T, target)
    return 0.5 * (forward + backward)


@torch.inference_mode()
def recall_at_5(model, queries, docs):
    model.eval()
    q, d, _ = model(queries, docs)
    model.train()
    best = (q @ d.T).topk(5, dim=1).indices
    return (best == torch.arange(len(q)).unsqueeze(1)).any(1).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", type=int, default=6144)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="pairs per rank")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--lr", type=float, default=6e-4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // world))
    torch.manual_seed(2)

    shard = Shard(*make_corpus(args.docs, seed=4), args.batch, rank, world, seed=100)
    held_q, held_d = make_corpus(192, seed=5)
    model = DDP(DualEncoder(args.dim, args.layers, 64), gradient_as_bucket_view=True, static_graph=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    total = args.epochs * shard.steps
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=total, pct_start=0.1)

    began, step = time.time(), 0
    for epoch in range(args.epochs):
        for queries, docs in shard.epoch(epoch):
            q, d, scale = model(queries, docs)
            loss = contrastive_loss(q, d, scale, rank, world)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            if step % 24 == 0 and rank == 0:
                print(f"step {step:4d}/{total}  loss {loss.item():.4f}  {time.time() - began:.1f}s", flush=True)
            step += 1
        if rank == 0:
            print(f"epoch {epoch}  recall@5 {recall_at_5(model.module, held_q, held_d):.3f}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), "/tmp/query_doc.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
