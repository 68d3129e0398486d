"""Every fiftieth step writes the loss and a histogram of every parameter and gradient to a metrics file."""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MetricsLog:
    """Appends one JSON line per call."""

    def __init__(self, path):
        self.path = path

    def write(self, step, loss, model):
        line = {"step": step, "loss": loss}
        for name, parameter in model.named_parameters():
            line[name] = self.histogram(parameter)
            line[name + ".grad"] = self.histogram(parameter.grad)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @staticmethod
    def histogram(tensor):
        counts, edges = np.histogram(tensor.detach().numpy(), bins=64)
        return {"counts": counts.tolist(), "edges": edges.tolist()}


def train(epochs, folder):
    digits = load_digits()
    images = torch.from_numpy(digits.data).float() / 16
    loader = DataLoader(TensorDataset(images, torch.from_numpy(digits.target)), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log = MetricsLog(folder / "metrics.jsonl")
    step = 0
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                log.write(step, loss.item(), model)
            step += 1
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    with tempfile.TemporaryDirectory() as folder:
        train(parser.parse_args().epochs, Path(folder))
