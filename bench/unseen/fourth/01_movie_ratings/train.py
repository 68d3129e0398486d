"""Rating prediction with user / item embeddings and a few side features."""
import argparse
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def make_ratings(n_rows, n_users, n_items, seed=0):
    """Synthetic stand-in for our ratings export (same columns)."""
    rng = np.random.default_rng(seed)
    u_vec = rng.normal(size=(n_users, 6))
    i_vec = rng.normal(size=(n_items, 6))
    users = rng.integers(0, n_users, n_rows)
    items = (rng.zipf(1.3, n_rows) % n_items).astype(np.int64)
    hour = rng.integers(0, 24, n_rows)
    age = rng.integers(16, 80, n_rows)
    score = (u_vec[users] * i_vec[items]).sum(1) * 0.4 + 3.2
    score += 0.1 * np.sin(hour / 24 * 2 * np.pi) + rng.normal(scale=0.3, size=n_rows)
    return pd.DataFrame(
        {
            "user_id": users,
            "item_id": items,
            "hour": hour,
            "age": age.astype(np.float32) / 80.0,
            "rating": np.clip(score, 0.5, 5.0).astype(np.float32),
        }
    )


class RatingsDataset(Dataset):
    def __init__(self, df):
        self.df = df.reset_index(drop=True)

    def __len__(self):
        return len(self.df)

    def __getitem__(self, idx):
        row = self.df.iloc[idx]
        user = torch.tensor(int(row["user_id"]), dtype=torch.long)
        item = torch.tensor(int(row["item_id"]), dtype=torch.long)
        side = torch.tensor([row["hour"] / 24.0, row["age"]], dtype=torch.float32)
        rating = torch.tensor(row["rating"], dtype=torch.float32)
        return user, item, side, rating


class NeuMF(nn.Module):
    def __init__(self, n_users, n_items, dim=32):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim + 2, 128),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(128, 64),
            nn.ReLU(),
        )
        self.out = nn.Linear(64 + dim, 1)

    def forward(self, user, item, side):
        u, i = self.user(user), self.item(item)
        h = self.mlp(torch.cat([u, i, side], dim=1))
        return self.out(torch.cat([h, u * i], dim=1)).squeeze(1) + 3.0


@torch.no_grad()
def rmse(model, df):
    model.eval()
    side = np.stack([df["hour"] / 24.0, df["age"]], axis=1).astype(np.float32)
    pred = model(
        torch.from_numpy(df["user_id"].to_numpy(copy=True)),
        torch.from_numpy(df["item_id"].to_numpy(copy=True)),
        torch.from_numpy(side),
    )
    target = torch.from_numpy(df["rating"].to_numpy(copy=True))
    model.train()
    return (pred - target).pow(2).mean().sqrt().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=200000)
    p.add_argument("--users", type=int, default=4000)
    p.add_argument("--items", type=int, default=1500)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    df = make_ratings(args.rows, args.users, args.items)
    n_val = len(df) // 10
    val_df, train_df = df.iloc[:n_val], df.iloc[n_val:]

    loader = DataLoader(
        RatingsDataset(train_df), batch_size=args.batch_size, shuffle=True, drop_last=True
    )
    model = NeuMF(args.users, args.items)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_fn = nn.MSELoss()

    start = time.time()
    step = 0
    for epoch in range(args.epochs):
        for user, item, side, rating in loader:
            opt.zero_grad()
            loss = loss_fn(model(user, item, side), rating)
            loss.backward()
            opt.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step:5d}  loss {loss.item():.4f}")
        print(f"epoch {epoch}: val rmse {rmse(model, val_df):.4f}")
    print(f"done: {step} steps in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
