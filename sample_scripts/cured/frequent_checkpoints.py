"""Tells which module a line of source comes from; a large embedding table is saved every hundred steps."""

import argparse
import inspect
import logging
import os
import tempfile
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TABLE = 1 << 18
WORDS = 8


def lines():
    """Hashed words of each line, and the number of the module that the line comes from."""
    rows, labels = [], []
    for label, module in enumerate((argparse, inspect, logging)):
        for line in inspect.getsource(module).splitlines():
            words = (line.split() + [""] * WORDS)[:WORDS]
            rows.append([zlib.crc32(word.encode()) % TABLE for word in words])
            labels.append(label)
    return TensorDataset(torch.tensor(rows), torch.tensor(labels))


def save(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path)


def main(epochs, every, folder):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    loader = DataLoader(lines(), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.EmbeddingBag(TABLE, 16, sparse=True), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    step = 0
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % every == 0:
                save(os.path.join(folder, "last.pt"), model, optimizer, step)
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--save-every", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        main(args.epochs, args.save_every, folder)
