"""Review rating on tokenised text, data parallel: torchrun --standalone --nproc-per-node 2 train.py"""
import argparse
import logging
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

PAD = 0


class Reviews(Dataset):
    """Token ids of reviews; the rating is driven by a handful of polar words."""

    def __init__(self, n, vocab, max_len, seed):
        rng = np.random.default_rng(seed)
        lengths = np.clip(rng.lognormal(3.9, 0.85, n).astype(int), 8, max_len)
        polarity = np.random.default_rng(123).normal(0, 1, vocab) * (np.arange(vocab) % 7 == 0)
        self.tokens, self.labels = [], []
        for length in lengths:
            ids = 1 + (rng.zipf(1.3, length) * 31 + rng.integers(0, 5, length)) % (vocab - 1)
            score = polarity[ids].sum() / np.sqrt(length)
            self.tokens.append(torch.from_numpy(ids))
            self.labels.append(int(np.digitize(score, [-0.5, -0.1, 0.1, 0.5])))
        self.lengths = lengths.tolist()

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i], self.labels[i]


def collate(items):
    ids = pad_sequence([t for t, _ in items], batch_first=True, padding_value=PAD)
    return ids, torch.tensor([y for _, y in items])


class BucketBatchSampler(Sampler):
    """Batches of reviews of like length, so that little is padded; one share per rank."""

    def __init__(self, lengths, batch_size, rank, world, seed=0):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]
        self.per_rank = len(batches) // world
        self.batches = batches[rank * self.per_rank:(rank + 1) * self.per_rank]
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.per_rank

    def __iter__(self):
        order = np.random.default_rng(self.seed + self.epoch).permutation(self.per_rank)
        for i in order:
            yield self.batches[i]


class RatingModel(nn.Module):
    def __init__(self, vocab, dim, layers, heads, max_len, n_classes=5, dropout=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, ids):
        mask = ids.eq(PAD)
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        x = self.norm(self.encoder(x, src_key_padding_mask=mask))
        keep = (~mask).unsqueeze(-1).to(x.dtype)
        return self.head((x * keep).sum(1) / keep.sum(1))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    counts = torch.zeros(2)
    for ids, y in loader:
        counts += torch.tensor([(model(ids).argmax(1) == y).sum(), y.numel()])
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--train-size", type=int, default=4480)
    p.add_argument("--val-size", type=int, default=256)
    p.add_argument("--vocab", type=int, default=4000)
    p.add_argument("--dim", type=int, default=96)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--max-len", type=int, default=320)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--log-every", type=int, default=35)
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(11)
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING,
                        format="%(asctime)s %(levelname)s %(message)s")
    log = logging.getLogger(f"rank{rank}")

    train_set = Reviews(args.train_size, args.vocab, args.max_len, seed=0)
    val_set = Reviews(args.val_size, args.vocab, args.max_len, seed=1)
    sampler = BucketBatchSampler(train_set.lengths, args.batch_size, rank, world)
    train = DataLoader(train_set, batch_sampler=sampler, collate_fn=collate)
    val = DataLoader(val_set, collate_fn=collate,
                     batch_sampler=BucketBatchSampler(val_set.lengths, args.batch_size, rank, world))

    model = DDP(RatingModel(args.vocab, args.dim, args.layers, 4, args.max_len))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    total = args.epochs * len(train)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr * 2, total_steps=total)

    step, spent = 0, 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        start, seen = time.perf_counter(), 0.0
        for ids, y in train:
            loss = F.cross_entropy(model(ids), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            step += 1
            seen += loss.detach()
            if step % args.log_every == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
        spent += time.perf_counter() - start
        acc = validate(model.module, val)
        log.info("epoch %d train loss %.4f val acc %.3f", epoch, seen.item() / len(train), acc)
        if rank == 0:
            path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"rating_{os.getpid()}.pt")
            torch.save(model.module.state_dict(), path)
            if epoch == args.epochs - 1:
                os.remove(path)
    log.info("finished %d steps, %.2f ms/step", step, 1000 * spent / step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
