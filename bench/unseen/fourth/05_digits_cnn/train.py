"""Small CNN on handwritten digits with random shifts."""
import random
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset

cfg = {
    "epochs": 100,
    "batch_size": 64,
    "lr": 1e-3,
    "num_workers": 2,
    "seed": 7,
}


class Digits(Dataset):
    def __init__(self, images, targets, augment):
        self.images = images
        self.targets = targets
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i]
        if self.augment:
            img = np.roll(img, (random.randint(-1, 1), random.randint(-1, 1)), axis=(0, 1))
        return torch.from_numpy(img.copy()).unsqueeze(0), int(self.targets[i])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Trainer:
    def __init__(self, model, train_set, val_set):
        self.model = model
        self.train_loader = DataLoader(
            train_set,
            batch_size=cfg["batch_size"],
            shuffle=True,
            num_workers=cfg["num_workers"],
        )
        self.val_loader = DataLoader(
            val_set,
            batch_size=256,
            num_workers=cfg["num_workers"],
        )
        self.opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
        self.criterion = nn.CrossEntropyLoss()
        self.steps = 0

    def train_epoch(self):
        self.model.train()
        total, seen = 0.0, 0
        for x, y in self.train_loader:
            self.opt.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.opt.step()
            total += loss.item() * len(y)
            seen += len(y)
            self.steps += 1
        return total / seen

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        correct = 0
        for x, y in self.val_loader:
            correct += (self.model(x).argmax(1) == y).sum().item()
        return correct / len(self.val_loader.dataset)

    def fit(self):
        best, start = 0.0, time.time()
        for epoch in range(cfg["epochs"]):
            loss = self.train_epoch()
            acc = self.validate()
            best = max(best, acc)
            if epoch % 10 == 0:
                print(f"epoch {epoch:3d} loss {loss:.4f} val acc {acc:.4f}", flush=True)
        print(f"done: best acc {best:.4f}, {self.steps} steps in {time.time() - start:.1f} s")


if __name__ == "__main__":
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)
    x_tr, x_va, y_tr, y_va = train_test_split(
        images, data.target, test_size=0.2, random_state=cfg["seed"]
    )
    Trainer(Net(), Digits(x_tr, y_tr, True), Digits(x_va, y_va, False)).fit()
