"""Handwritten digits, augmented on the fly in the training process itself, in front of a small CNN."""

# expect: verdict=data finding=too-few-workers

import argparse

import numpy as np
import torch
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


def enlarge(image, random):
    return ndimage.zoom(image, 4, order=2)


def shift(image, random):
    return ndimage.shift(image, random.uniform(-2, 2, 2), order=1)


def turn(image, random):
    return ndimage.rotate(image, random.uniform(-15, 15), reshape=False, order=2)


def blur(image, random):
    return ndimage.gaussian_filter(image, random.uniform(0.5, 1.0))


class AugmentedDigits(Dataset):
    """Each digit is enlarged, turned, shifted and blurred a little differently every time."""

    def __init__(self):
        digits = load_digits()
        self.images = digits.images.astype(np.float32) / 16
        self.labels = torch.from_numpy(digits.target)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, random = self.images[index], np.random.default_rng(int(torch.randint(2**31, ())))
        for change in (enlarge, shift, turn, blur):
            image = change(image, random)
        return torch.from_numpy(image).unsqueeze(0), self.labels[index]


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 8 * 8, 10),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(AugmentedDigits(), batch_size=args.batch_size, shuffle=True)  # <- finding
    for epoch in range(args.epochs):
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    main()
