"""Re-identification of single orchid plants from photographs of two seasons, with a cross-batch memory (XBM).

torchrun --nproc_per_node=2 train.py
The memory holds the embeddings of the last batches of all ranks as additional negatives and positives.
"""
import argparse
import logging
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

log = logging.getLogger("orchids")


class OrchidPhotos(Dataset):
    """Each plant has a pattern of its own (spots on the lip); each photograph is a shifted, noisy, relit view."""

    def __init__(self, plants=400, views=16, side=40, seed=3):
        g = torch.Generator().manual_seed(seed)
        self.pattern = F.interpolate(torch.randn(plants, 3, 10, 10, generator=g), size=side + 8, mode="bilinear")
        self.label = torch.arange(plants).repeat_interleave(views)
        self.shift = torch.randint(0, 9, (len(self.label), 2), generator=g)
        self.light = 0.7 + 0.6 * torch.rand(len(self.label), generator=g)
        self.side = side

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        plant = self.label[i]
        y, x = self.shift[i].tolist()
        photo = self.pattern[plant, :, y:y + self.side, x:x + self.side] * self.light[i]
        return photo + 0.25 * torch.randn_like(photo), plant


def conv_block(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(8, cout), nn.ReLU(inplace=True))


class Embedder(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.body = nn.Sequential(
            conv_block(3, 32, 2), conv_block(32, 64, 2), conv_block(64, 128, 1), conv_block(128, 128, 2))
        self.head = nn.Linear(128, dim)

    def forward(self, x):
        return F.normalize(self.head(self.body(x).mean((2, 3))), dim=1)


class CrossBatchMemory:
    """Ring of embeddings and labels."""

    def __init__(self, size, dim):
        self.feats = torch.zeros(size, dim)
        self.labels = torch.full((size,), -1, dtype=torch.long)
        self.size, self.at = size, 0

    @torch.no_grad()
    def push(self, feats, labels):
        """Adds the new rows of all ranks."""
        world = dist.get_world_size()
        all_feats = [torch.empty_like(feats) for _ in range(world)]
        all_labels = [torch.empty_like(labels) for _ in range(world)]
        dist.all_gather(all_feats, feats)
        dist.all_gather(all_labels, labels)
        feats, labels = torch.cat(all_feats), torch.cat(all_labels)
        where = (torch.arange(len(labels)) + self.at) % self.size
        self.feats[where] = feats
        self.labels[where] = labels
        self.at = (self.at + len(labels)) % self.size

    def content(self):
        return self.feats, self.labels


def memory_loss(emb, labels, mem_emb, mem_labels, margin=0.4):
    """Contrastive loss against the memory; empty slots carry the label -1."""
    sim = emb @ mem_emb.t()
    same = labels[:, None] == mem_labels[None]
    filled = (mem_labels >= 0)[None]
    pos = ((1 - sim) * same).sum() / same.sum().clamp(min=1)
    hard = F.relu(sim - margin) * (~same & filled)
    neg = hard.sum() / (hard > 0).sum().clamp(min=1)
    return pos + neg


def batch_loss(emb, labels, temperature=0.1):
    sim = emb @ emb.t() / temperature
    eye = torch.eye(len(emb), dtype=torch.bool)
    same = (labels[:, None] == labels[None]) & ~eye
    logp = sim.masked_fill(eye, -1e9).log_softmax(1)
    has = same.any(1)
    if not has.any():
        return emb.sum() * 0
    return -((logp * same).sum(1)[has] / same.sum(1)[has]).mean()


@torch.no_grad()
def recall_at_1(model, data, plants=60):
    model.eval()
    idx = torch.nonzero(data.label < plants).squeeze(1)[::4]
    x, y = zip(*(data[i] for i in idx.tolist()))
    emb, y = model(torch.stack(x)), torch.stack(y)
    sim = (emb @ emb.t()).fill_diagonal_(-2)
    model.train()
    return (y[sim.argmax(1)] == y).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--memory", type=int, default=24576, help="slots for each rank")
    p.add_argument("--dim", type=int, default=256)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--max-steps", type=int, default=400)
    p.add_argument("--out", default="runs/orchids")
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(message)s")
    torch.manual_seed(0)
    data = OrchidPhotos()
    sampler = DistributedSampler(data, shuffle=True, seed=1, drop_last=True)
    loader = DataLoader(data, batch_size=args.batch, sampler=sampler, drop_last=True)
    model = DDP(Embedder(args.dim))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.max_steps)
    memory = CrossBatchMemory(args.memory * dist.get_world_size(), args.dim)

    step, began = 0, time.time()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for photos, plants in loader:
            emb = model(photos)
            memory.push(emb.detach(), plants)
            mem_emb, mem_labels = memory.content()
            loss = batch_loss(emb, plants) + memory_loss(emb, plants, mem_emb, mem_labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 20 == 0:
                log.info("epoch %d step %d loss %.4f (%.0f ms a step)", epoch, step, loss.item(), 1000 * (time.time() - began) / step)
            if step >= args.max_steps:
                break
        if rank == 0:
            log.info("epoch %d recall@1 %.3f", epoch, recall_at_1(model.module, data))
            os.makedirs(args.out, exist_ok=True)
            torch.save(model.module.state_dict(), os.path.join(args.out, "last.pt"))
        dist.barrier()
        if step >= args.max_steps:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
