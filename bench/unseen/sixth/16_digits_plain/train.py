"""Handwritten digit classifier: small residual CNN in a plain loop."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

EPOCHS, BATCH, WIDTH, LR = 16, 64, 48, 0.05


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if stride == 1 and cin == cout else nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x), inplace=True)


def augment(x, gen):
    dy, dx = torch.randint(-2, 3, (2,), generator=gen).tolist()
    return torch.roll(x, (dy, dx), dims=(2, 3))


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    digits = load_digits()
    images = F.interpolate(torch.from_numpy(digits.images).float().unsqueeze(1) / 16 - 0.3,
                           size=(24, 24), mode="bilinear", align_corners=False)
    labels = torch.from_numpy(digits.target)
    order = torch.randperm(len(images), generator=gen)
    train_x, train_y = images[order[:1536]], labels[order[:1536]]
    test_x, test_y = images[order[1536:]], labels[order[1536:]]

    model = nn.Sequential(
        nn.Conv2d(1, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=True),
        Block(WIDTH, WIDTH, 2), Block(WIDTH, 2 * WIDTH, 1), Block(2 * WIDTH, 2 * WIDTH, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * WIDTH, 10))
    model = model.to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=5e-4, fused=True)
    steps = len(train_x) // BATCH
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=LR, total_steps=EPOCHS * steps)

    start = time.time()
    for epoch in range(EPOCHS):
        model.train()
        total = torch.zeros(())
        for idx in torch.randperm(len(train_x), generator=gen).view(steps, BATCH):
            x = augment(train_x[idx], gen).contiguous(memory_format=torch.channels_last)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), train_y[idx], label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
        if epoch % 4 == 3:
            model.eval()
            with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
                acc = (model(test_x).argmax(1) == test_y).float().mean()
            print(f"epoch {epoch + 1} loss {total.item() / steps:.4f} test acc {acc:.3f} "
                  f"({time.time() - start:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
