"""Distil a music tagger: a small student learns from clip tags and from a big frozen teacher.

Clips are mixtures of synthetic instruments as log spectrograms; the tags say which
instruments play.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.metrics import average_precision_score
from torch.utils.data import DataLoader, TensorDataset

RATE, CLIP = 4000, 4096


def instrument_bank(tags, seed=4):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, (tags, 8)) ** 2, rng.uniform(0.5, 4.0, tags)


def make_clips(n, tags, seed):
    """n clips (1, bins, frames) and their multi-hot tags."""
    rng = np.random.default_rng(seed)
    timbre, decay = instrument_bank(tags)
    t = np.arange(CLIP) / RATE
    waves = rng.normal(0, 0.2, (n, CLIP)).astype(np.float32)
    labels = (rng.random((n, tags)) < 0.3).astype(np.float32)
    for i in range(n):
        for k in np.flatnonzero(labels[i]):
            f0 = rng.uniform(110, 220)
            harmonics = np.arange(1, 9)[:, None]
            tone = (timbre[k][:, None] * np.sin(2 * np.pi * f0 * harmonics * t)).sum(0)
            waves[i] += 0.3 * tone * np.exp(-decay[k] * t)
    spec = torch.stft(torch.from_numpy(waves), 128, 64, window=torch.hann_window(128),
                      return_complex=True).abs()
    spec = torch.log1p(spec[:, :64, :64])
    return spec.unsqueeze(1), torch.from_numpy(labels)


def conv(cin, cout, pool=True):
    layers = [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d(2)) if pool else nn.Sequential(*layers)


class Tagger(nn.Module):
    def __init__(self, tags, width, deep=False):
        super().__init__()
        stages = [nn.AvgPool2d(2), conv(1, width)]
        for i in range(2):
            if deep:
                stages.append(conv(width << i, width << i, pool=False))
            stages.append(conv(width << i, width << (i + 1)))
        self.features = nn.Sequential(*stages)
        self.head = nn.Linear(width * 4, tags)

    def forward(self, x):
        h = self.features(x).mean((2, 3))
        return self.head(h), h


class Distiller(nn.Module):
    """Student, frozen teacher and the projection between their features."""

    def __init__(self, student, teacher, alpha, beta, temperature):
        super().__init__()
        self.student = student
        self.teacher = teacher.eval()
        self.project = nn.Linear(student.head.in_features, teacher.head.in_features)
        self.alpha, self.beta, self.temperature = alpha, beta, temperature

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x, target):
        with torch.no_grad():
            t_logits, t_feat = self.teacher(x)
        s_logits, s_feat = self.student(x)
        hard = F.binary_cross_entropy_with_logits(s_logits, target)
        soft = F.mse_loss(s_logits / self.temperature, t_logits / self.temperature)
        hint = 1 - F.cosine_similarity(self.project(s_feat), t_feat, dim=1).mean()
        return hard + self.alpha * soft + self.beta * hint, hard


def pretrain_teacher(teacher, loader, steps, lr):
    """A short supervised run; stands in for the checkpoint of the real project."""
    opt = torch.optim.Adam(teacher.parameters(), lr=lr)
    for _, (x, y) in zip(range(steps), loader):
        loss = F.binary_cross_entropy_with_logits(teacher(x)[0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.no_grad()
def mean_ap(model, loader):
    model.eval()
    scores, labels = zip(*[(model(x)[0].sigmoid(), y) for x, y in loader])
    model.train()
    return average_precision_score(torch.cat(labels).numpy(), torch.cat(scores).numpy(), average="macro")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--clips", type=int, default=1440)
    p.add_argument("--tags", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--student-width", type=int, default=16)
    p.add_argument("--teacher-width", type=int, default=24)
    p.add_argument("--teacher-steps", type=int, default=10)
    p.add_argument("--alpha", type=float, default=0.5)
    p.add_argument("--beta", type=float, default=0.2)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=30)
    args = p.parse_args()
    torch.manual_seed(8)

    train_set = TensorDataset(*make_clips(args.clips, args.tags, 1))
    val_set = TensorDataset(*make_clips(160, args.tags, 2))
    loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, 40)

    teacher = Tagger(args.tags, args.teacher_width, deep=True)
    last = pretrain_teacher(teacher, loader, args.teacher_steps, args.lr)
    print(f"teacher: loss {last:.3f}, val mAP {mean_ap(teacher, val_loader):.3f}", flush=True)

    student = Tagger(args.tags, args.student_width)
    model = Distiller(student, teacher, args.alpha, args.beta, args.temperature)
    params = list(model.student.parameters()) + list(model.project.parameters())
    opt = torch.optim.AdamW(params, lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(loader))

    step, start = 0, time.time()
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            loss, hard = model(x, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % args.log_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} hard {hard.item():.4f}", flush=True)
        print(f"epoch {epoch} student val mAP {mean_ap(student, val_loader):.3f}", flush=True)
    print(f"{step} steps in {time.time() - start:.1f} s")
    torch.save(student.state_dict(), "/tmp/music_student.pt")


if __name__ == "__main__":
    main()
