# %% [markdown]
# # Two-tower retrieval on watch logs
# Users and titles are embedded, sampled softmax over in-batch negatives.

# %%
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2024)
rng = np.random.default_rng(2024)

# %%
N_USERS, N_TITLES, N_GENRES = 60_000, 30_000, 24
N_EVENTS = 160_000
DIM = 32
BATCH = 512
EPOCHS = 3

# %%
# watch log: users have a favourite genre, titles follow a power law inside their genre
user_genre = rng.integers(0, N_GENRES, N_USERS)
title_genre = rng.integers(0, N_GENRES, N_TITLES)
by_genre = [np.flatnonzero(title_genre == g) for g in range(N_GENRES)]

users = rng.integers(0, N_USERS, N_EVENTS)
ranks = rng.pareto(1.1, N_EVENTS)
titles = np.empty(N_EVENTS, dtype=np.int64)
for g in range(N_GENRES):
    rows = np.flatnonzero(user_genre[users] == g)
    pool = by_genre[g]
    titles[rows] = pool[np.minimum((ranks[rows] * 20).astype(np.int64), len(pool) - 1)]
hours = rng.random((N_EVENTS, 4)).astype(np.float32)

users_t = torch.from_numpy(users)
titles_t = torch.from_numpy(titles)
hours_t = torch.from_numpy(hours)
genre_t = torch.from_numpy(title_genre)
popularity = torch.bincount(titles_t, minlength=N_TITLES).float().add(1).log()


# %%
class UserTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_USERS, DIM)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.mlp = nn.Sequential(nn.Linear(DIM + 4, 64), nn.ReLU(), nn.Linear(64, DIM))

    def forward(self, user, context):
        return F.normalize(self.mlp(torch.cat([self.emb(user), context], 1)), dim=1)


class TitleTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_TITLES, DIM)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.genre = nn.Embedding(N_GENRES, 8)
        self.mlp = nn.Sequential(nn.Linear(DIM + 8, 64), nn.ReLU(), nn.Linear(64, DIM))

    def forward(self, title):
        return F.normalize(self.mlp(torch.cat([self.emb(title), self.genre(genre_t[title])], 1)), dim=1)


user_tower, title_tower = UserTower(), TitleTower()
n_params = sum(p.numel() for m in (user_tower, title_tower) for p in m.parameters())
print(f"{n_params / 1e6:.2f}M parameters")

# %%
params = list(user_tower.parameters()) + list(title_tower.parameters())
optimizer = torch.optim.Adam(params, lr=2e-3)


def in_batch_softmax(u, t, title_ids):
    logits = u @ t.T / 0.07 - popularity[title_ids]
    clash = title_ids[:, None] == title_ids[None, :]
    clash.fill_diagonal_(False)
    logits = logits.masked_fill(clash, -1e4)
    return F.cross_entropy(logits, torch.arange(len(u)))


# %%
step, start = 0, time.time()
for epoch in range(EPOCHS):
    order = torch.randperm(N_EVENTS)
    for lo in range(0, N_EVENTS - BATCH + 1, BATCH):
        idx = order[lo:lo + BATCH]
        u, t, c = users_t[idx], titles_t[idx], hours_t[idx]
        loss = in_batch_softmax(user_tower(u, c), title_tower(t), t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step:4d} loss {loss.item():.4f} ({time.time() - start:.1f}s)", flush=True)

# %%
with torch.no_grad():
    probe = torch.randint(0, N_EVENTS, (512,))
    catalogue = title_tower(torch.arange(N_TITLES))
    scores = user_tower(users_t[probe], hours_t[probe]) @ catalogue.T
    top = scores.topk(100, dim=1).indices
    recall = (top == titles_t[probe][:, None]).any(1).float().mean()
print(f"recall@100 {recall:.3f}")
