"""Mean teacher on small grey-scale symbols with few labels (accelerate)."""
import argparse
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


def draw_symbols(n, seed, size=28):
    """Each class is a fixed random stroke pattern; every sample is shifted, scaled and noisy."""
    proto = torch.Generator().manual_seed(99)
    shapes = F.interpolate(torch.randn(CLASSES, 1, 7, 7, generator=proto), size=size, mode="bicubic")
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (n,), generator=gen)
    theta = torch.zeros(n, 2, 3)
    angle = 0.4 * (torch.rand(n, generator=gen) - 0.5)
    scale = 0.85 + 0.3 * torch.rand(n, generator=gen)
    theta[:, 0, 0] = theta[:, 1, 1] = scale * angle.cos()
    theta[:, 0, 1], theta[:, 1, 0] = -scale * angle.sin(), scale * angle.sin()
    theta[:, :, 2] = 0.3 * (torch.rand(n, 2, generator=gen) - 0.5)
    grid = F.affine_grid(theta, (n, 1, size, size), align_corners=False)
    images = F.grid_sample(shapes[labels], grid, align_corners=False)
    return images + 0.6 * torch.randn(n, 1, size, size, generator=gen), labels


class Symbols(Dataset):
    """Holds all images as one tensor; the loader fetches a whole batch with one indexing."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]

    def __getitems__(self, indices):
        return self[indices]


def loader(dataset, batch_size, train):
    return DataLoader(dataset, batch_size, shuffle=train, drop_last=train, collate_fn=lambda batch: batch)


def weak(x):
    dx, dy = torch.randint(-2, 3, (2,)).tolist()
    return torch.roll(x, (dy, dx), (2, 3))


def strong(x):
    x = weak(x) * (0.7 + 0.6 * torch.rand(len(x), 1, 1, 1))
    keep = (F.interpolate(torch.rand(len(x), 1, 7, 7), size=x.shape[-1]) > 0.15).float()
    return x * keep + 0.2 * torch.randn_like(x)


class ResidualBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(c_out), nn.BatchNorm2d(c_out)
        self.skip = nn.Identity() if c_in == c_out and stride == 1 else nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x), inplace=True)


def build_net(width):
    return nn.Sequential(nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                         ResidualBlock(width, width, 1), ResidualBlock(width, 2 * width, 2),
                         ResidualBlock(2 * width, 4 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4 * width, CLASSES))


class Teacher:
    """Exponential moving average of the student's weights; batch-norm statistics are copied."""

    def __init__(self, student, decay):
        self.net = copy.deepcopy(student).requires_grad_(False)
        self.decay = decay
        self.mine = [p for p in self.net.parameters()]
        self.theirs = [p for p in student.parameters()]
        self.buffers = list(zip(self.net.buffers(), student.buffers()))

    @torch.no_grad()
    def update(self, step):
        decay = min(self.decay, (step + 1) / (step + 10))
        torch._foreach_lerp_(self.mine, self.theirs, 1 - decay)
        for a, b in self.buffers:
            a.copy_(b)


@torch.inference_mode()
def accuracy(net, batches):
    net.eval()
    hits = sum((net(x).argmax(1) == y).sum().item() for x, y in batches)
    net.train()
    return hits / len(batches.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--labelled", type=int, default=320)
    ap.add_argument("--unlabelled", type=int, default=6144)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=96)
    ap.add_argument("--width", type=int, default=24)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--decay", type=float, default=0.99)
    ap.add_argument("--weight", type=float, default=3.0)
    args = ap.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(8)
    labelled = loader(Symbols(*draw_symbols(args.labelled, 1)), 32, train=True)
    unlabelled = loader(Symbols(*draw_symbols(args.unlabelled, 2)), args.batch_size, train=True)
    held_out = loader(Symbols(*draw_symbols(1000, 3)), 250, train=False)

    student = build_net(args.width)
    opt = torch.optim.AdamW(student.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)
    steps = args.epochs * len(unlabelled)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=steps)
    student, opt, labelled, unlabelled, held_out = accelerator.prepare(student, opt, labelled, unlabelled, held_out)
    teacher = Teacher(accelerator.unwrap_model(student), args.decay)

    def endless(batches):
        while True:
            yield from batches

    began, step = time.time(), 0
    few = endless(labelled)
    for epoch in range(args.epochs):
        for u, _ in unlabelled:
            x, y = next(few)
            with torch.no_grad():
                target = teacher.net(weak(u)).softmax(1)
            logits = student(torch.cat([weak(x), strong(u)]))
            supervised = F.cross_entropy(logits[:len(x)], y)
            consistency = F.mse_loss(logits[len(x):].softmax(1), target)
            loss = supervised + args.weight * min(1.0, step / 60) * consistency
            opt.zero_grad()
            accelerator.backward(loss)
            opt.step()
            sched.step()
            teacher.update(step)
            if step % 32 == 0:
                accelerator.print(f"step {step:4d}/{steps}  supervised {supervised.item():.4f}  consistency "
                                  f"{consistency.item():.4f}  {time.time() - began:.1f}s", flush=True)
            step += 1
        accelerator.print(f"epoch {epoch}  teacher accuracy {accuracy(teacher.net, held_out):.3f}", flush=True)
    accelerator.save(teacher.net.state_dict(), "/tmp/mean_teacher.pt")


if __name__ == "__main__":
    main()
