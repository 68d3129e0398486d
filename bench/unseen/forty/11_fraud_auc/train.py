"""Transaction fraud model on a stream; follows how well the model ranks."""
import numpy as np
import torch
import torch.nn as nn
from sklearn.metrics import average_precision_score, roc_auc_score

rng = np.random.default_rng(21)
torch.manual_seed(21)

N_NUM, N_CAT, CARD = 24, 6, 200
STEPS, BATCH = 900, 128


def next_batch():
    num = rng.normal(size=(BATCH, N_NUM)).astype(np.float32)
    cat = rng.integers(0, CARD, (BATCH, N_CAT))
    z = num[:, 0] * 1.2 + num[:, 1] * num[:, 2] + 0.01 * (cat[:, 0] - 100) - 2.0
    y = (rng.random(BATCH) < 1 / (1 + np.exp(-z))).astype(np.float32)
    return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y)


class FraudNet(nn.Module):
    def __init__(self, emb=16, hidden=640):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(CARD, emb) for _ in range(N_CAT))
        self.mlp = nn.Sequential(
            nn.Linear(N_NUM + N_CAT * emb, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1),
        )

    def forward(self, num, cat):
        parts = [num] + [e(cat[:, i]) for i, e in enumerate(self.embs)]
        return self.mlp(torch.cat(parts, 1)).squeeze(1)


class Meter:
    """Area under ROC and PR curves of everything that was predicted so far."""

    def __init__(self):
        self.scores = []
        self.labels = []

    def update(self, logits, y):
        self.scores.append(torch.sigmoid(logits).detach().numpy())
        self.labels.append(y.numpy())

    def compute(self):
        s, y = np.concatenate(self.scores), np.concatenate(self.labels)
        if y.min() == y.max():
            return float("nan"), float("nan")
        return roc_auc_score(y, s), average_precision_score(y, s)


model = FraudNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
meter = Meter()
history = []
for step in range(1, STEPS + 1):
    num, cat, y = next_batch()
    logits = model(num, cat)
    loss = bce(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meter.update(logits, y)
    auc, ap = meter.compute()
    history.append((step, loss.item(), auc, ap))
    if step % 100 == 0:
        print("step %d loss %.4f auc %.4f ap %.4f" % history[-1])
