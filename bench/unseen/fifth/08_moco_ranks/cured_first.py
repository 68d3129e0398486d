"""MoCo-style pretraining of a small convnet on two ranks.

    torchrun --standalone --nproc-per-node 2 train.py
"""
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch.nn.parallel import DistributedDataParallel

DIM, QUEUE, BATCH, STEPS = 128, 65_536, 16, 200
TEMP, MOMENTUM = 0.2, 0.99


def textures(n, seed):
    """Oriented gratings with noise; the class is the orientation."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 8, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 36), torch.linspace(-1, 1, 36), indexing="ij")
    ang = (y * torch.pi / 8).view(-1, 1, 1)
    freq = 6 + 6 * torch.rand(n, 1, 1, generator=g)
    phase = 6.28 * torch.rand(n, 1, 1, generator=g)
    img = torch.sin(freq * (xx * ang.cos() + yy * ang.sin()) + phase)
    colour = 0.4 + torch.rand(n, 3, 1, 1, generator=g)
    return img.unsqueeze(1) * colour + 0.3 * torch.randn(n, 3, 36, 36, generator=g), y


def augment(x):
    i, j = torch.randint(0, 5, (2,)).tolist()
    x = x[:, :, i:i + 32, j:j + 32]
    x = x * (0.6 + 0.8 * torch.rand(len(x), 3, 1, 1)) + 0.2 * torch.randn(len(x), 3, 1, 1)
    return x + 0.1 * torch.randn_like(x)


def encoder():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1), nn.GroupNorm(8, 64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, DIM),
    )


class MoCo(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = encoder(), encoder()
        self.k.load_state_dict(self.q.state_dict())
        self.k.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(QUEUE, DIM), dim=1))
        self.ptr = 0

    @torch.no_grad()
    def update_key_encoder(self):
        torch._foreach_lerp_(list(self.k.parameters()), list(self.q.parameters()), 1 - MOMENTUM)

    @torch.no_grad()
    def enqueue(self, keys):
        both = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(both, keys)
        both = torch.cat(both)
        self.queue[self.ptr:self.ptr + len(both)] = both
        self.ptr = (self.ptr + len(both)) % QUEUE

    def forward(self, a, b):
        q = F.normalize(self.q(a), dim=1)
        with torch.no_grad():
            k = F.normalize(self.k(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.T
        return torch.cat([pos, neg], 1) / TEMP, k


@torch.no_grad()
def embed(net, x):
    return torch.cat([net(part) for part in x[:, :, 2:34, 2:34].split(100)]).numpy()


def probe(net, xtr, ytr, xte, yte):
    clf = LogisticRegression(C=100.0, max_iter=400)
    clf.fit(embed(net, xtr), ytr)
    return clf.score(embed(net, xte), yte)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(100)
    model = DistributedDataParallel(MoCo(), broadcast_buffers=False)
    moco = model.module
    opt = torch.optim.SGD(moco.q.parameters(), lr=0.06, momentum=0.9, weight_decay=1e-4)
    images, _ = textures(2000, seed=rank)
    xtr, ytr = textures(200, seed=50)
    xte, yte = textures(200, seed=51)
    torch.manual_seed(rank)
    acc, t0 = 0.0, time.time()
    for step in range(1, STEPS + 1):
        batch = images[torch.randint(0, len(images), (BATCH,))]
        moco.update_key_encoder()
        logits, keys = model(augment(batch), augment(batch))
        loss = F.cross_entropy(logits, torch.zeros(BATCH, dtype=torch.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        moco.enqueue(keys)
        if rank == 0 and step % 10 == 0:
            acc = max(acc, probe(moco.q, xtr, ytr, xte, yte))
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} probe {acc:.3f} "
                  f"{step * BATCH * 2 / (time.time() - t0):.0f} img/s", flush=True)
    dist.barrier()
    time.sleep(0.5)
    dist.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    main()
