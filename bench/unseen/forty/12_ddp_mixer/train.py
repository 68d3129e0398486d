"""Two-process training of a token mixer. Start: torchrun --nproc-per-node 2 train.py"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

STEPS = 400
BATCH = 16
TOKENS, DIM, DEPTH = 16, 64, 16


class MixBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.t1, self.t2 = nn.Linear(TOKENS, 32), nn.Linear(32, TOKENS)
        self.c1, self.c2 = nn.Linear(DIM, 128), nn.Linear(128, DIM)

    def forward(self, x):
        x = x + self.t2(F.gelu(self.t1(self.n1(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


class Mixer(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.embed = nn.Linear(48, DIM)
        self.blocks = nn.Sequential(*[MixBlock() for _ in range(DEPTH)])
        self.head = nn.Linear(DIM, classes)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)).mean(1))


def average_gradients(model):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= world


def make_batch(g, centers):
    y = torch.randint(0, 10, (BATCH,), generator=g)
    x = centers[y] + torch.randn(BATCH, TOKENS, 48, generator=g)
    return x, y


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)  # same weights on every rank
    model = Mixer()
    centers = torch.randn(10, TOKENS, 48) * 0.3
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        x, y = make_batch(g, centers)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        average_gradients(model)
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
