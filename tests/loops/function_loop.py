"""The loop is in a function, the model and the loader are local."""

# truth: steps=36 marker=update samples=288
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(epochs):
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(TensorDataset(torch.randn(96, 32), torch.randint(4, (96,))), batch_size=8)
    begin = time.perf_counter()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            end = time.perf_counter()
            time.sleep(0.003)
    return loss.item(), end - begin


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loss, wall = train(3)
    print(f"loss {loss:.6f}")
    print(f"perf: {wall:.6f}")


if __name__ == "__main__":
    main()
