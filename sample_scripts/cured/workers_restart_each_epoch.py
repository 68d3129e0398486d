"""Short epochs over the digits: the loader's workers outlive them."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=120)
    return parser.parse_args()


def digits():
    data = load_digits()
    return TensorDataset(torch.from_numpy(data.data).float() / 16, torch.from_numpy(data.target))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(64, 256)
        self.norm = nn.BatchNorm1d(256)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.norm(self.body(x)).relu())


def main():
    args = parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(digits(), batch_size=128, shuffle=True, num_workers=2, persistent_workers=True)
    for epoch in range(args.epochs):
        right = 0
        for x, y in loader:
            output = model(x)
            loss = nn.functional.cross_entropy(output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (output.argmax(1) == y).sum().item()
        print(f"epoch {epoch}: accuracy {right / len(loader.dataset):.3f}")


if __name__ == "__main__":
    main()
