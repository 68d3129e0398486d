"""Next-event model over user sessions kept as plain Python records."""
import gc
import random

import torch
from torch import nn

EVENTS = 500
CONTEXT = 24
BATCH = 48
STEPS = 700


class Session:
    __slots__ = ("user", "events", "meta")

    def __init__(self, user, events, meta):
        self.user = user
        self.events = events
        self.meta = meta


def load_sessions(n=12_000, seed=6):
    rnd = random.Random(seed)
    base = [[rnd.randrange(EVENTS) for _ in range(CONTEXT + 1)] for _ in range(512)]
    sessions = []
    for i in range(n):
        ev = list(base[i % 512])
        ev[i % CONTEXT] = i % EVENTS
        sessions.append(Session(i % 9973, ev, {"id": i, "tags": [i % 7]}))
    return sessions


class NextEvent(nn.Module):
    def __init__(self, dim=144):
        super().__init__()
        self.emb = nn.Embedding(EVENTS, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, EVENTS)

    def forward(self, ids):
        h, _ = self.gru(self.emb(ids))
        return self.out(h)


def train():
    torch.manual_seed(6)
    rnd = random.Random(60)
    sessions = load_sessions()
    model = NextEvent()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        picked = [sessions[rnd.randrange(len(sessions))] for _ in range(BATCH)]
        ids = torch.tensor([s.events for s in picked])
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, EVENTS), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        del logits, loss, ids, picked
        if step % 50 == 0:
            print(f"step {step:4d} loss {value:.4f}")


if __name__ == "__main__":
    train()
