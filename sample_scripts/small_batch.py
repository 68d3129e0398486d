"""An echo network forecasts a chaotic series, four windows of it at a time."""

# expect: verdict=compute finding=small-batch

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WINDOW = 24


def mackey_glass(length, delay=17):
    """The series of Mackey and Glass, by Euler's method."""
    values = [1.2] * (delay + 1)
    for _ in range(length):
        late = values[-delay - 1]
        values.append(values[-1] + 0.2 * late / (1 + late**10) - 0.1 * values[-1])
    return torch.tensor(values[delay + 1 :])


class Echo(nn.Module):
    """A recurrent cell with two gates, unrolled by hand."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.read = nn.Linear(1, 2 * width)
        self.recall = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, 1)

    def forward(self, series):
        state = series.new_zeros(len(series), self.width)
        for moment in self.read(series.unsqueeze(2)).unbind(1):
            gate, fresh = (moment + self.recall(state)).chunk(2, 1)
            gate = gate.sigmoid()
            state = gate * state + (1 - gate) * fresh.tanh()
        return self.head(state).squeeze(1)


def main(batch_size, epochs):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    windows = mackey_glass(4000).unfold(0, WINDOW + 1, 1)
    data = TensorDataset(windows[:, :-1], windows[:, -1])
    loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)  # <- finding
    model = Echo(width=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        total = torch.zeros(())
        for past, future in loader:
            loss = nn.functional.mse_loss(model(past), future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: error {total / len(loader):.5f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    main(args.batch_size, args.epochs)
