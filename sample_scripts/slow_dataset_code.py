"""Texture features of the digits, computed pixel by pixel in Python inside the dataset."""

# expect: verdict=data finding=slow-dataset-code

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


def local_binary_pattern(image):
    codes = np.zeros(image.shape, dtype=np.float32)
    for row in range(1, image.shape[0] - 1):
        for column in range(1, image.shape[1] - 1):
            code = 0
            for bit, (down, right) in enumerate(NEIGHBOURS):
                if image[row + down, column + right] >= image[row, column]:  # <- finding
                    code |= 1 << bit
            codes[row, column] = code
    return codes / 255


class Textures(Dataset):
    def __init__(self):
        self.digits = load_digits()

    def __len__(self):
        return len(self.digits.images)

    def __getitem__(self, index):
        image = np.kron(self.digits.images[index], np.ones((2, 2)))
        image = np.roll(image, tuple(torch.randint(-1, 2, (2,)).tolist()), (0, 1))
        codes = local_binary_pattern(image)
        return torch.from_numpy(np.stack([image.astype(np.float32) / 16, codes])), int(
            self.digits.target[index]
        )


class Trainer:
    """Trains a small network on batches of texture features."""

    def __init__(self, args):
        self.epochs = args.epochs
        self.loader = DataLoader(
            Textures(), batch_size=32, shuffle=True, num_workers=args.workers, persistent_workers=True
        )
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def fit(self):
        for epoch in range(self.epochs):
            losses = [self.step(x, y) for x, y in self.loader]
            print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    Trainer(parser.parse_args()).fit()
