"""Distil a larger digit classifier into a small one, with accelerate."""
import gc
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

CONFIG = dict(batch_size=48, teacher_steps=15, epochs=25, lr=3e-3, temperature=3.0, alpha=0.7,
              validate_every=80, seed=12)


def conv_net(width, depth):
    layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(width * 64, 10)]
    return nn.Sequential(*layers)


def datasets():
    digits = load_digits()
    x = torch.from_numpy(digits.images).float()[:, None] / 16
    x = F.interpolate(x, size=16, mode="bilinear")
    y = torch.from_numpy(digits.target).long()
    xtr, xte, ytr, yte = train_test_split(x, y, test_size=800, random_state=0, stratify=y)
    return TensorDataset(xtr, ytr), TensorDataset(xte, yte)


def train_teacher(teacher, data, steps, batch_size):
    opt = torch.optim.SGD(teacher.parameters(), lr=0.02, momentum=0.9)
    x, y = data.tensors
    for _ in range(steps):
        idx = torch.randint(len(x), (batch_size,))
        loss = F.cross_entropy(teacher(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return teacher.eval().requires_grad_(False)


def kd_loss(student_logits, teacher_logits, y, T, alpha):
    soft = F.kl_div(F.log_softmax(student_logits / T, 1), F.log_softmax(teacher_logits / T, 1),
                    reduction="batchmean", log_target=True) * T * T
    return alpha * soft + (1 - alpha) * F.cross_entropy(student_logits, y)


@torch.no_grad()
def validate(accelerator, student, teacher, loader):
    student.eval()
    hits = agree = total = 0
    for x, y in loader:
        pred, ref = accelerator.gather_for_metrics((student(x).argmax(1), y))
        hits += (pred == ref).sum()
        agree += (pred == teacher(x).argmax(1)).sum()
        total += len(ref)
    student.train()
    return (hits / total).item(), (agree / total).item()


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(CONFIG["seed"])
    train_set, val_set = datasets()
    teacher = train_teacher(conv_net(24, 2), train_set, CONFIG["teacher_steps"], CONFIG["batch_size"])
    train_loader = DataLoader(train_set, CONFIG["batch_size"], shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, 200)
    student = conv_net(16, 1)
    optimizer = torch.optim.AdamW(student.parameters(), lr=CONFIG["lr"])
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, CONFIG["epochs"] * len(train_loader))
    student, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(
        student, optimizer, train_loader, val_loader, scheduler)
    accelerator.print(f"teacher {sum(p.numel() for p in teacher.parameters())} parameters, "
                      f"student {sum(p.numel() for p in student.parameters())}")

    bar = tqdm(total=CONFIG["epochs"] * len(train_loader), mininterval=2.0)
    step, best, agreement = 0, 0.0, 0.0
    t0 = time.time()
    for epoch in range(CONFIG["epochs"]):
        for x, y in train_loader:
            with torch.no_grad():
                t_logits = teacher(x)
            loss = kd_loss(student(x), t_logits, y, CONFIG["temperature"], CONFIG["alpha"])
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            del t_logits
            if step % 10 == 0:
                gc.collect()
            step += 1
            bar.update(1)
            if step % CONFIG["validate_every"] == 0:
                acc, agreement = validate(accelerator, student, teacher, val_loader)
                if acc > best:
                    best = acc
        accelerator.print(f"\nepoch {epoch}: loss {loss.item():.3f} best {best:.3f} agree {agreement:.3f} "
                          f"({(time.time() - t0) / step * 1e3:.0f} ms/step)")
    bar.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
