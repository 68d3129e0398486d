"""Session-based recommender: given the clicks so far, which article comes next?"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ARTICLES = 6000
CLICKS = 20


def article_code(i):
    return f"ART-{(i * 48271) % 2147483647:010d}"


def build_sessions(n, seed):
    rnd = random.Random(seed)
    codes = [article_code(i) for i in range(ARTICLES)]
    sessions = []
    for _ in range(n):
        at = rnd.randrange(ARTICLES)
        path = []
        for _ in range(CLICKS + 1):
            path.append(codes[at])
            at = (at + rnd.randrange(1, 40)) % ARTICLES if rnd.random() < 0.9 else rnd.randrange(ARTICLES)
        sessions.append(path)
    return codes, sessions


class Sessions(Dataset):
    def __init__(self, n=3000, seed=19):
        self.catalogue, self.sessions = build_sessions(n, seed)
        self.index = {code: i for i, code in enumerate(self.catalogue)}

    def __len__(self):
        return len(self.sessions)

    def __getitem__(self, i):
        ids = [self.index[code] for code in self.sessions[i]]
        return torch.tensor(ids[:-1]), ids[-1]


class SessionNet(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.items = nn.Embedding(ARTICLES, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.score = nn.Linear(dim, ARTICLES)

    def forward(self, clicks):
        h, _ = self.gru(self.items(clicks))
        return self.score(h)


def main():
    torch.manual_seed(19)
    loader = DataLoader(Sessions(), batch_size=24, shuffle=True, drop_last=True)
    model = SessionNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(6):
        for step, (clicks, nxt) in enumerate(loader):
            scores = model(clicks)
            loss = F.cross_entropy(scores[:, -1], nxt)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
