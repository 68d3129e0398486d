"""Leaves are told apart by a residual network; crops, flips and tone curves are drawn in worker processes."""

# expect: verdict=data finding=slow-dataset-code

import os

import common
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def tone(value, gamma):
    """One channel of one pixel, brightened or darkened."""
    return int(255 * (value / 255) ** gamma + 0.5)  # <- finding


class ToneCurve:
    def __init__(self, spread):
        self.spread = spread

    def __call__(self, image, rng):
        curve = np.vectorize(tone, otypes=[np.uint8])
        gamma = rng.uniform(1 - self.spread, 1 + self.spread)
        return curve(image, gamma)  # <- finding
        # cured: return curve(np.arange(256), gamma)[image]


class Leaves(Dataset):
    """Photographs in memory, cut out anew each time."""

    def __init__(self, side, count=1024, classes=100):
        rng = np.random.default_rng(0)
        self.side, self.curve = side, ToneCurve(0.4)
        self.images = rng.integers(0, 256, (count, side + 16, side + 16, 3), np.uint8)
        self.labels = rng.integers(0, classes, count)

    def __len__(self):
        return 64 * len(self.images)

    def __getitem__(self, index):
        index %= len(self.images)
        rng = np.random.default_rng(int(torch.randint(1 << 31, ())))
        top, left = rng.integers(0, 17, 2)
        image = self.images[index, top : top + self.side, left : left + self.side]
        if rng.random() < 0.5:
            image = image[:, ::-1]
        return np.ascontiguousarray(self.curve(image, rng).transpose(2, 0, 1)), self.labels[index]


class Classifier(nn.Module):
    def __init__(self, width, stages, classes=100):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
        for stage in range(stages):
            layers.append(common.Residual(width << stage))
            layers.append(nn.Conv2d(width << stage, width << stage + 1, 3, 2, 1, bias=False))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(width << stages, classes)

    def forward(self, images):
        return self.head(self.features(images))


def main():
    args = common.arguments()
    on_device = args.device == "cuda"
    size, side, width, stages = common.sized(args, (48, 96, 64, 3), (4, 16, 8, 1))
    workers = len(os.sched_getaffinity(0)) - 2 if on_device else 1
    loader = DataLoader(
        Leaves(side), size, shuffle=True, num_workers=workers, pin_memory=on_device, persistent_workers=True
    )
    model = Classifier(width, stages).to(args.device, torch.bfloat16, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for step, (images, labels) in zip(common.steps(args), common.endless(loader), strict=False):
        images = images.to(args.device, non_blocking=True).to(torch.bfloat16) / 128 - 1
        labels = labels.to(args.device, non_blocking=True)
        loss = criterion(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
