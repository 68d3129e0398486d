"""Handwritten digits with strong PIL augmentation, done by worker processes."""
import random

import numpy as np
import torch
import torch.nn as nn
from PIL import Image, ImageChops, ImageEnhance, ImageFilter
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset

SIDE = 40


class Augmented(Dataset):
    def __init__(self):
        d = load_digits()
        self.images = [Image.fromarray((im * 15).astype(np.uint8)).resize((SIDE, SIDE), Image.BICUBIC) for im in d.images]
        self.labels = d.target
        self.epoch = 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i]
        img = img.rotate(random.uniform(-25, 25), resample=Image.BILINEAR)
        dx, dy = random.randint(-4, 4), random.randint(-4, 4)
        img = ImageChops.offset(img, dx, dy)
        shear = random.uniform(-0.2, 0.2)
        img = img.transform((SIDE, SIDE), Image.AFFINE, (1, shear, -shear * SIDE / 2, 0, 1, 0), Image.BILINEAR)
        if random.random() < 0.5:
            img = img.filter(ImageFilter.GaussianBlur(random.uniform(0.2, 1.2)))
        img = ImageEnhance.Contrast(img).enhance(random.uniform(0.6, 1.5))
        x = np.asarray(img, dtype=np.float32) / 255.0
        noise = np.random.default_rng(random.getrandbits(32)).normal(0, 0.05, x.shape)
        return torch.from_numpy((x + noise).astype(np.float32))[None], int(self.labels[i])


def seed_worker(worker_id):
    random.seed(torch.initial_seed() % 2**32)


class GlyphNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
        self.net = nn.Sequential(block(1, 32), block(32, 64), block(64, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                 nn.Linear(96, 10))

    def forward(self, x):
        return self.net(x)


def main():
    torch.manual_seed(9)
    torch.set_num_threads(1)  # one core for the model, the other for the loader
    loader = DataLoader(Augmented(), batch_size=16, shuffle=True, num_workers=1, persistent_workers=True,
                        prefetch_factor=6, drop_last=True, worker_init_fn=seed_worker)
    model = GlyphNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(7):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
