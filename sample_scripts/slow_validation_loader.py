"""Workers turn handwritten digits for a CNN; the digits that were held back are enlarged in the training process."""

# expect: verdict=data finding=slow-validation-loader

import argparse

import numpy as np
import torch
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Enlarged digits: one view of each to train on, turned a little, and several to recognise it by."""

    def __init__(self, images, labels, angles=None):
        self.images, self.labels, self.angles = images, labels, angles

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        angles = self.angles or [float(torch.empty(()).uniform_(-15, 15))]
        views = [ndimage.rotate(self.images[index], angle, reshape=False, order=1) for angle in angles]
        large = [ndimage.zoom(view, 3, order=1) for view in views]
        return torch.from_numpy(np.stack(large)), self.labels[index]


def build_model(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * width * 6 * 6, 10),
    )  # fmt: skip


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = 0
    for views, labels in loader:
        right += (model(views.mean(1, keepdim=True)).argmax(1) == labels).sum().item()
    model.train()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    digits = load_digits()
    images, labels = digits.images.astype(np.float32) / 16, torch.from_numpy(digits.target)
    training = Digits(images[:1280], labels[:1280])
    held_back = Digits(images[1280:], labels[1280:], angles=range(-24, 25, 3))
    train_loader = DataLoader(training, args.batch_size, shuffle=True, num_workers=2, persistent_workers=True)
    test_loader = DataLoader(held_back, args.batch_size)  # <- finding
    model = build_model(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for views, targets in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(views), targets)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {validate(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
