"""Self-supervised pretraining on thin-section micrographs of minerals: momentum
contrast with a queue of negatives, two processes.

    torchrun --nproc_per_node=2 train.py
"""
import argparse
import copy
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SIZE = 40


def micrographs(n, seed=0):
    """Grainy patches: a coarse random field blown up, plus fine texture."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 6, 6, generator=g)
    img = F.interpolate(coarse, size=(SIZE, SIZE), mode="nearest")
    img += 0.15 * torch.randn(n, 1, SIZE, SIZE, generator=g)
    return (img.clamp(0, 1) * 255).to(torch.uint8)


def augment(x):
    """One random view per call; x is a float batch."""
    i, j = torch.randint(0, SIZE - 32 + 1, (2,)).tolist()
    x = x[:, :, i:i + 32, j:j + 32]
    if torch.rand(()) < 0.5:
        x = x.flip(-1)
    gain = 0.6 + 0.8 * torch.rand(x.shape[0], 3, 1, 1)
    return x * gain + 0.05 * torch.randn_like(x)


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False),
                         nn.GroupNorm(8, cout), nn.ReLU(inplace=True))


def encoder(dim):
    return nn.Sequential(block(3, 32), block(32, 64), block(64, 96), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(96, 96), nn.ReLU(inplace=True), nn.Linear(96, dim))


class MomentumContrast(nn.Module):
    def __init__(self, dim=128, queue=65536, momentum=0.99, temperature=0.15):
        super().__init__()
        self.m, self.t = momentum, temperature
        self.query = encoder(dim)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def update_key(self):
        torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        world = dist.get_world_size()
        gathered = [torch.empty_like(keys) for _ in range(world)]
        dist.all_gather(gathered, keys)
        keys = torch.cat(gathered)
        n = keys.shape[0]
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.queue.shape[1]

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            self.update_key()
            k = F.normalize(self.key(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue
        logits = torch.cat([pos, neg], dim=1) / self.t
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long)), k


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=800)
    ap.add_argument("--batch", type=int, default=16, help="per process")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    data = TensorDataset(micrographs(20000))
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, args.batch, sampler=sampler, drop_last=True)

    model = DDP(MomentumContrast())
    opt = torch.optim.SGD(model.module.query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    torch.manual_seed(100 + rank)

    step, epoch, start = 0, 0, time.time()
    while step < args.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for (x,) in loader:
            x = x.float().div_(255)
            loss, keys = model(augment(x), augment(x))
            opt.zero_grad()
            loss.backward()
            opt.step()
            model.module.enqueue(keys)
            step += 1
            if rank == 0 and step % 50 == 0:
                print(f"step {step} loss {loss.item():.3f} {time.time() - start:.1f}s", flush=True)
            if step >= args.steps:
                break
    if rank == 0:
        torch.save(model.module.query.state_dict(), "/tmp/minerals_query.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
