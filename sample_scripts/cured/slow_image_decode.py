"""Photographs of ten kinds of leaves, opened at a quarter of their size and shrunk to 96 pixels (needs Pillow)."""

import argparse
import io
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = 10
SIZE = 96


def photograph(kind):
    """A picture of a million pixels: a striped leaf on rough ground."""
    random = np.random.default_rng(kind)
    y, x = np.mgrid[-1:1:896j, -1:1:1200j]
    leaf = (x**2 + (2 + kind / 5) * y**2 < 0.6) * np.sin((5 + 3 * kind) * x)
    ground = np.kron(random.normal(110, 25, (56, 75)), np.ones((16, 16)))
    picture = np.stack([ground, ground + 80 * leaf, ground - 20 * leaf], 2).clip(0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=85)
    return file.getvalue()


class Leaves(Dataset):
    def __init__(self, folder, count):
        self.paths = []
        pictures = [photograph(kind) for kind in range(KINDS)]
        for number in range(count):
            path = folder / f"leaf{number:05d}-{number % KINDS}.jpg"
            path.write_bytes(pictures[number % KINDS])
            self.paths.append(path)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with Image.open(path) as image:
            image.draft("RGB", (2 * SIZE, 2 * SIZE))
            picture = image.convert("RGB")
        pixels = np.array(picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        label = int(path.stem[-1])
        return torch.from_numpy(pixels.transpose(2, 0, 1)), label


class LeafNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, KINDS),
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1440)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core belongs to the workers
    with tempfile.TemporaryDirectory() as folder:
        leaves = Leaves(Path(folder), args.images)
        loader = DataLoader(leaves, batch_size=args.batch_size, shuffle=True, num_workers=2)
        model = LeafNet()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        for step, (pixels, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(pixels / 255 - 0.5), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
