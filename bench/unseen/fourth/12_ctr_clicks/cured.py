# Click-through-rate model: embeddings for the categorical fields, MLP on top.
# Impressions are generated (Zipf-like ids, logistic click model).
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.metrics import log_loss, roc_auc_score
from tqdm import tqdm

SEED = 7
N_TRAIN = 90_000
N_VALID = 15_000
BATCH = 256
EPOCHS = 7
LR = 1e-3
FIELDS = {"ad": 2000, "campaign": 300, "publisher": 800, "device": 40, "geo": 250, "hour": 24}
N_DENSE = 8


def make_impressions(n, rng, weights):
    cats = np.empty((n, len(FIELDS)), dtype=np.int64)
    logit = np.full(n, -1.3)
    for j, (name, size) in enumerate(FIELDS.items()):
        cats[:, j] = (size * rng.beta(0.7, 2.5, size=n)).astype(np.int64)
        logit += weights[name][cats[:, j]]
    dense = rng.normal(size=(n, N_DENSE)).astype(np.float32)
    logit += dense @ weights["dense"] + 0.4 * dense[:, 0] * dense[:, 1]
    clicks = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return cats, dense, clicks


class CTRNet(nn.Module):
    def __init__(self, dim=12, hidden=(128, 64), dropout=0.1):
        super().__init__()
        sizes = list(FIELDS.values())
        # one table for all fields, ids are shifted by the offset of their field
        self.register_buffer("offsets", torch.tensor(np.cumsum([0] + sizes[:-1])))
        self.table = nn.Embedding(sum(sizes), dim)
        self.wide = nn.Embedding(sum(sizes), 1)
        nn.init.normal_(self.table.weight, std=0.01)
        nn.init.zeros_(self.wide.weight)
        layers, width = [], dim * len(sizes) + N_DENSE
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU(), nn.Dropout(dropout)]
            width = h
        layers.append(nn.Linear(width, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, cats, dense):
        idx = cats + self.offsets
        deep = self.mlp(torch.cat([self.table(idx).flatten(1), dense], dim=1))
        return (deep + self.wide(idx).sum(1)).squeeze(1)


def evaluate(model, cats, dense, clicks):
    model.eval()
    probs = []
    with torch.no_grad():
        for s in range(0, len(clicks), 2048):
            probs.append(torch.sigmoid(model(cats[s:s + 2048], dense[s:s + 2048])).numpy())
    probs = np.concatenate(probs)
    return roc_auc_score(clicks, probs), log_loss(clicks, probs)


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    weights = {name: rng.normal(0, 0.5, size) for name, size in FIELDS.items()}
    weights["dense"] = rng.normal(0, 0.3, N_DENSE)
    cats, dense, clicks = make_impressions(N_TRAIN, rng, weights)
    v_cats, v_dense, v_clicks = make_impressions(N_VALID, rng, weights)
    cats, dense, clicks = torch.from_numpy(cats), torch.from_numpy(dense), torch.from_numpy(clicks)
    v_cats, v_dense = torch.from_numpy(v_cats), torch.from_numpy(v_dense)

    model = CTRNet()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    t0 = time.time()
    n_steps = 0

    for epoch in range(EPOCHS):
        model.train()
        order = torch.randperm(N_TRAIN)
        y_true, y_prob = [], []
        losses = []
        bar = tqdm(range(0, N_TRAIN - BATCH + 1, BATCH), desc=f"epoch {epoch}", mininterval=2.0)
        for s in bar:
            idx = order[s:s + BATCH]
            logits = model(cats[idx], dense[idx])
            loss = F.binary_cross_entropy_with_logits(logits, clicks[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            n_steps += 1

            losses.append(loss.item())
            y_true.append(clicks[idx].numpy())
            y_prob.append(torch.sigmoid(logits).detach().numpy())
            bar.set_postfix(loss=f"{np.mean(losses[-50:]):.4f}", refresh=False)

        train_auc = roc_auc_score(np.concatenate(y_true), np.concatenate(y_prob))
        auc, ll = evaluate(model, v_cats, v_dense, v_clicks)
        print(
            f"epoch {epoch}: train loss {np.mean(losses):.4f} train auc {train_auc:.4f} | "
            f"valid auc {auc:.4f} logloss {ll:.4f} | {n_steps / (time.time() - t0):.1f} it/s"
        )


if __name__ == "__main__":
    main()
