"""An LSTM forecasts the load of a power grid from a week of hours."""

# expect: verdict=healthy finding=none

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WEEK = 168


def load_curve(hours):
    """Days, weeks and weather."""
    hour = torch.arange(hours).float()
    day, week = torch.sin(2 * math.pi * hour / 24), torch.sin(2 * math.pi * hour / WEEK)
    weather = torch.randn(hours // 24 + 1).repeat_interleave(24)[:hours]
    return torch.stack([day + 0.5 * week + 0.3 * weather, weather], 1)


class Forecaster(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.lstm = nn.LSTM(2, width, batch_first=True)
        self.head = nn.Linear(width, 24)

    def forward(self, past):
        states, _ = self.lstm(past)
        return self.head(states[:, -1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    windows = load_curve(args.hours).unfold(0, WEEK + 24, 1).transpose(1, 2)
    data = TensorDataset(windows[:, :WEEK].contiguous(), windows[:, WEEK:, 0].contiguous())
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = Forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        for past, day in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(past), day)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch}: squared error {loss.item():.4f}")


if __name__ == "__main__":
    main()
