"""Distil the weld-seam inspection network into a student that fits on the line controller."""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DEFECTS = ["ok", "pore", "crack", "undercut", "spatter", "offset"]


def write_archive(path, n, size, seed):
    """Stands in for the export of the inspection station."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(DEFECTS), n)
    yy, xx = np.mgrid[:size, :size] / size
    images = np.empty((n, size, size), dtype=np.uint8)
    for i, y in enumerate(labels):
        seam = np.exp(-((yy - 0.5 - 0.02 * (y == 5)) ** 2) / (0.01 + 0.004 * (y == 3)))
        img = 90 + 100 * seam + rng.normal(0, 14, (size, size))
        cy, cx = rng.uniform(0.3, 0.7, 2)
        if y in (1, 4):
            img -= (70 if y == 1 else -60) * (((yy - cy) ** 2 + (xx - cx) ** 2) < 0.004)
        if y == 2:
            img -= 60 * (np.abs(yy - cy - 0.3 * (xx - cx)) < 0.02)
        images[i] = img.clip(0, 255)
    np.savez(path, images=images, labels=labels.astype(np.int64))


class WeldDataset(Dataset):
    def __init__(self, path, augment):
        self.archive = np.load(path, mmap_mode="r")
        self.count = len(self.archive["labels"])
        self.augment = augment

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        img = self.archive["images"][i]
        label = self.archive["labels"][i]
        x = torch.from_numpy(np.array(img, dtype=np.float32)).div_(255).sub_(0.5).unsqueeze(0)
        if self.augment and torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x, int(label)


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


def resnet(widths, n_classes=len(DEFECTS)):
    blocks, cin = [], widths[0]
    for w in widths:
        blocks.append(Residual(cin, w, 2))
        cin = w
    return nn.Sequential(nn.Conv2d(1, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(),
                         *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, n_classes))


class Distiller:
    def __init__(self, args, train_set, val_set):
        self.args = args
        self.train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(val_set, 100)
        self.teacher = resnet((32, 64, 96)).eval()
        if args.teacher and os.path.exists(args.teacher):
            self.teacher.load_state_dict(torch.load(args.teacher))
        self.student = resnet((12, 24, 32))
        steps = args.epochs * len(self.train_loader)
        self.opt = torch.optim.SGD(self.student.parameters(), 0.05, momentum=0.9, nesterov=True,
                                   weight_decay=5e-4, foreach=True)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, steps)

    def distillation_loss(self, student_logits, teacher_logits, y):
        t = self.args.temperature
        soft = F.kl_div(F.log_softmax(student_logits / t, 1), F.log_softmax(teacher_logits / t, 1),
                        reduction="batchmean", log_target=True) * t * t
        return self.args.alpha * soft + (1 - self.args.alpha) * F.cross_entropy(student_logits, y)

    def train_step(self, x, y):
        with torch.no_grad():
            teacher_logits = self.teacher(x)
        student_logits = self.student(x)
        loss = self.distillation_loss(student_logits, teacher_logits, y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.detach()

    @torch.inference_mode()
    def accuracy(self):
        self.student.eval()
        hits = [(self.student(x).argmax(1) == y).float().mean() for x, y in self.val_loader]
        self.student.train()
        return torch.stack(hits).mean().item()

    def fit(self):
        for epoch in range(self.args.epochs):
            start = time.time()
            losses = [self.train_step(x, y) for x, y in self.train_loader]
            print(f"epoch {epoch:2d}  loss {torch.stack(losses).mean().item():.4f}  "
                  f"{len(losses) / (time.time() - start):.2f} steps/s", flush=True)
        print(f"student accuracy {self.accuracy():.3f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--archive", default=None, help=".npz of the inspection station (made up if missing)")
    p.add_argument("--teacher", default=None)
    p.add_argument("--epochs", type=int, default=9)
    p.add_argument("--images", type=int, default=800)
    p.add_argument("--size", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--temperature", type=float, default=4.0)
    p.add_argument("--alpha", type=float, default=0.7)
    args = p.parse_args()

    torch.manual_seed(2)
    folder = tempfile.mkdtemp(prefix="weld_")
    train_path = args.archive or os.path.join(folder, "train.npz")
    val_path = os.path.join(folder, "val.npz")
    if not args.archive:
        write_archive(train_path, args.images, args.size, seed=1)
    write_archive(val_path, 100, args.size, seed=2)
    Distiller(args, WeldDataset(train_path, True), WeldDataset(val_path, False)).fit()


if __name__ == "__main__":
    main()
