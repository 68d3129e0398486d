"""Mean-teacher training of a household classifier on daily electricity load curves (few surveyed homes, many unsurveyed).

    torchrun --nproc_per_node=2 train.py
"""
import argparse
import copy
import math
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ["single", "couple", "family", "retired", "electric heating", "heat pump", "EV at night", "solar"]
SLOTS, PATCH = 96, 4


def make_curves(n, seed):
    """Quarter-hour consumption of a day, with temperature and calendar channels."""
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(len(CLASSES), (n,), generator=g)
    hours = torch.arange(SLOTS) / 4.0
    peaks = torch.tensor([[7.0, 20], [7.5, 19], [6.5, 18], [11, 17], [3, 22], [5, 15], [1, 2], [8, 21]])
    width = torch.tensor([1.0, 1.5, 2.5, 3.0, 4.0, 3.5, 1.5, 1.2])
    shift = torch.randn(n, 2, generator=g) * 1.3
    centres = peaks[kind] + shift
    bumps = torch.exp(-((hours - centres[..., None]) / width[kind][:, None, None]) ** 2).sum(1)
    sun = torch.exp(-((hours - 13) / 3) ** 2) * (kind == 7)[:, None]
    load = 0.3 + bumps * (0.5 + torch.rand(n, 1, generator=g)) - 0.8 * sun + 0.25 * torch.randn(n, SLOTS, generator=g)
    temp = 12 - 6 * torch.cos((hours - 3) / 24 * 2 * math.pi) + 5 * torch.randn(n, 1, generator=g)
    weekend = (torch.rand(n, 1, generator=g) < 2 / 7).float().expand(n, SLOTS)
    return torch.stack([load, temp / 15, weekend], -1), kind


class Block(nn.Module):
    def __init__(self, dim, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + F.dropout(self.proj(a), self.drop, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.n2(x)))), self.drop, self.training)


class CurveFormer(nn.Module):
    def __init__(self, dim=64, depth=10, heads=4, drop=0.1):
        super().__init__()
        self.embed = nn.Linear(3 * PATCH, dim)
        self.pos = nn.Parameter(torch.randn(1, SLOTS // PATCH, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads, drop) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(CLASSES))

    def forward(self, x):
        x = self.embed(x.reshape(len(x), SLOTS // PATCH, -1)) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(1)))


class MeanTeacher:
    """Exponential moving average of the student's weights."""

    def __init__(self, student, decay):
        self.module = copy.deepcopy(student).eval().requires_grad_(False)
        self.decay = decay
        self.weights = list(self.module.parameters())

    @torch.no_grad()
    def update(self, student, step):
        d = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.weights, list(student.parameters()), 1 - d)

    @torch.no_grad()
    def __call__(self, x):
        return self.module(x).softmax(-1)


def perturb(x):
    noise = torch.randn(len(x), SLOTS) * 0.1
    gain = 1 + 0.1 * torch.randn(len(x), 1)
    out = x.clone()
    out[..., 0] = x[..., 0] * gain + noise
    return out


def endless(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(accelerator, model, loader):
    right = torch.zeros(2)
    for x, y in loader:
        hit = model(x).argmax(-1) == y
        right += torch.tensor([hit.sum().item(), len(y)])
    right = accelerator.reduce(right, reduction="sum")
    return (right[0] / right[1]).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=760)
    p.add_argument("--lr", type=float, default=8e-4)
    p.add_argument("--labelled", type=int, default=8)
    p.add_argument("--unlabelled", type=int, default=16)
    p.add_argument("--ramp", type=int, default=150)
    args = p.parse_args()

    accelerator = Accelerator(cpu=True)
    set_seed(11)
    surveyed = TensorDataset(*make_curves(1200, 1))
    others = TensorDataset(make_curves(9000, 2)[0])
    held = TensorDataset(*make_curves(400, 3))
    model = CurveFormer()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.02, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    few = DataLoader(surveyed, args.labelled, shuffle=True, drop_last=True)
    many = DataLoader(others, args.unlabelled, shuffle=True, drop_last=True)
    test = DataLoader(held, 50)
    model, opt, few, many, test = accelerator.prepare(model, opt, few, many, test)
    teacher = MeanTeacher(accelerator.unwrap_model(model), 0.99)
    set_seed(11, device_specific=True)

    labelled, unlabelled = endless(few), endless(many)
    start = time.time()
    for step in range(args.steps):
        (x, y), (u,) = next(labelled), next(unlabelled)
        both = torch.cat([x, u])
        target = teacher(perturb(both))
        logits = model(perturb(both))
        supervised = F.cross_entropy(logits[:len(x)], y)
        consistency = (logits.softmax(-1) - target).square().sum(-1).mean()
        weight = 3.0 * math.exp(-5 * (1 - min(1.0, step / args.ramp)) ** 2)
        loss = supervised + weight * consistency
        opt.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        teacher.update(accelerator.unwrap_model(model), step)
        if step % 40 == 0:
            accelerator.print(f"step {step:4d} supervised {supervised.item():.3f} consistency {consistency.item():.4f} "
                              f"lr {sched.get_last_lr()[0]:.1e} {time.time() - start:.1f} s")
        if (step + 1) % 200 == 0:
            accelerator.print(f"teacher accuracy {evaluate(accelerator, teacher.module, test):.3f}")
    if accelerator.is_main_process:
        torch.save(teacher.module.state_dict(), "/tmp/curveformer_teacher.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
