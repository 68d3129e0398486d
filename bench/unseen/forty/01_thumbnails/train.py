"""Small scene classifier on a folder of photos (three made-up classes)."""
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

SEED = 7
IMG = 48
N_PHOTOS = 120
EPOCHS = 60
BATCH = 8


def make_photos(root):
    """Writes the photos that the camera would have given us."""
    rng = np.random.default_rng(SEED)
    items = []
    for i in range(N_PHOTOS):
        label = i % 3
        small = rng.integers(0, 90, (12, 16, 3), dtype=np.uint8)
        small[..., label] += 120
        photo = Image.fromarray(small).resize((960, 720), Image.BILINEAR)
        path = os.path.join(root, f"photo_{i:04d}.jpg")
        photo.save(path, quality=90)
        items.append((path, label))
    return items


class PhotoFolder(Dataset):
    def __init__(self, items, train=True):
        self.items = items
        self.train = train
        self.mean = torch.tensor([0.35, 0.35, 0.35]).view(3, 1, 1)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, label = self.items[i]
        img = Image.open(path).convert("RGB")
        img = img.resize((IMG, IMG), Image.BILINEAR)
        x = torch.from_numpy(np.array(img)).permute(2, 0, 1).float() / 255.0
        if self.train and random.random() < 0.5:
            x = x.flip(2)
        return x - self.mean, label


class Net(nn.Module):
    def __init__(self, width=24, classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    with tempfile.TemporaryDirectory() as root:
        items = make_photos(root)
        loader = DataLoader(PhotoFolder(items), batch_size=BATCH, shuffle=True, drop_last=True)
        model = Net()
        opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
        for epoch in range(EPOCHS):
            total, hits = 0.0, 0
            for x, y in loader:
                logits = model(x)
                loss = F.cross_entropy(logits, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
                hits += (logits.argmax(1) == y).sum().item()
            print(f"epoch {epoch:2d} loss {total / len(loader):.4f} acc {hits / (len(loader) * BATCH):.3f}")


if __name__ == "__main__":
    main()
