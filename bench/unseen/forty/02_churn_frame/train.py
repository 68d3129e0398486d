import argparse

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def build_frame(n_rows, seed):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({f"usage_{i}": rng.normal(size=n_rows) for i in range(40)})
    df["tenure"] = rng.integers(0, 72, n_rows)
    df["monthly"] = rng.gamma(3.0, 20.0, n_rows)
    df["plan"] = rng.integers(0, 4, n_rows)
    score = df["usage_0"] - 0.7 * df["usage_3"] + 0.01 * df["monthly"] - 0.02 * df["tenure"]
    df["churned"] = (score + rng.normal(size=n_rows) > 0).astype(int)
    return df


class ChurnDataset(Dataset):
    """Features and label of one customer."""

    def __init__(self, df, target="churned"):
        self.features = [c for c in df.columns if c != target]
        self.target = target
        self.df = df.copy()
        for col in ("tenure", "monthly"):
            self.df[col] = (self.df[col] - self.df[col].mean()) / self.df[col].std()

    def __len__(self):
        return len(self.df)

    def __getitem__(self, idx):
        row = self.df.iloc[idx]
        x = torch.tensor(row[self.features].values.astype(np.float32))
        y = torch.tensor(float(row[self.target]))
        return x, y


class ChurnNet(nn.Module):
    def __init__(self, n_in, hidden=512, depth=3, dropout=0.1):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(n_in, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(dropout)]
            n_in = hidden
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=20000)
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    ds = ChurnDataset(build_frame(args.rows, args.seed))
    loader = DataLoader(ds, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = ChurnNet(len(ds.features))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loss_fn = nn.BCEWithLogitsLoss()
    step, running = 0, 0.0
    while step < args.steps:
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
            step += 1
            if step % 100 == 0:
                print(f"step {step} loss {running / 100:.4f}")
                running = 0.0
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
