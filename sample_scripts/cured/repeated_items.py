"""Leaves by their contours: each shape is drawn and shrunk once, in the first epoch."""

import argparse
import random

import torch
from PIL import Image, ImageDraw, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = 4
LARGE, SMALL = 320, 32


def contour(draw, kind):
    """Corners of a leaf: the kinds have three to six lobes."""
    lobes = 3 + kind
    radii = [LARGE * (0.22 if corner % 2 else draw.uniform(0.38, 0.48)) for corner in range(2 * lobes)]
    turns = [torch.pi * corner / lobes + draw.uniform(-0.1, 0.1) for corner in range(2 * lobes)]
    points = torch.polar(torch.tensor(radii), torch.tensor(turns)) + complex(LARGE / 2, LARGE / 2)
    return [(point.real.item(), point.imag.item()) for point in points]


class Leaves(Dataset):
    def __init__(self, count):
        draw = random.Random(0)
        self.kinds = [number % KINDS for number in range(count)]
        self.contours = [contour(draw, kind) for kind in self.kinds]
        self.items = {}

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        if index not in self.items:
            self.items[index] = self.drawn(index)
        return self.items[index]

    def drawn(self, index):
        image = Image.new("L", (LARGE, LARGE))
        ImageDraw.Draw(image).polygon(self.contours[index], fill=255)
        soft = image.filter(ImageFilter.GaussianBlur(3))
        small = soft.resize((SMALL, SMALL), Image.Resampling.BOX)
        pixels = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
        return pixels.view(1, SMALL, SMALL).float() / 255, self.kinds[index]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--leaves", type=int, default=960)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Leaves(args.leaves), batch_size=32, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 36, KINDS),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        right = 0
        for pixels, kinds in loader:
            scores = model(pixels)
            loss = nn.functional.cross_entropy(scores, kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(1) == kinds).sum().item()
        print(f"epoch {epoch}: {right / args.leaves:.0%} right")


if __name__ == "__main__":
    main()
