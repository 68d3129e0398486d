"""A recurrent network whose orthogonal matrix is made once a step adds up marked numbers in long sequences."""

import argparse

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal


class OrthogonalRNN(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.inputs = nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, hidden))
        self.recurrent = orthogonal(nn.Linear(hidden, hidden, bias=False))
        self.readout = nn.Linear(hidden, 1)

    def forward(self, x):
        given = self.inputs(x)
        state = given.new_zeros(len(x), given.shape[-1])
        for t in range(x.shape[1]):
            state = torch.relu(given[:, t] + self.recurrent(state))
        return self.readout(state).squeeze(1)


def batches(steps, batch_size, length):
    """Numbers, two of them marked in each sequence; the target is their sum."""
    for _ in range(steps):
        numbers, marks = torch.rand(batch_size, length), torch.zeros(batch_size, length)
        marks.scatter_(1, torch.rand(batch_size, length).topk(2).indices, 1.0)
        yield torch.stack((numbers, marks), 2), (numbers * marks).sum(1)


def main(steps, batch_size, length, hidden):
    torch.manual_seed(0)
    model = OrthogonalRNN(2, hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(batches(steps, batch_size, length)):
        with parametrize.cached():
            output = model(x)
        loss = nn.functional.mse_loss(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--length", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=48)
    args = parser.parse_args()
    main(args.steps, args.batch_size, args.length, args.hidden)
