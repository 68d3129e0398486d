"""Next exhibit of a visitor's route through a large museum, custom model in the HF Trainer."""
import argparse
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

EXHIBITS = 9_000
ROUTE = 48


def walk(n, seed):
    """Routes: most steps go to a neighbouring exhibit of the same theme, some jump."""
    rng = np.random.default_rng(seed)
    stride = np.random.default_rng(0).integers(1, 40, EXHIBITS)
    routes = np.empty((n, ROUTE + 1), dtype=np.int64)
    routes[:, 0] = rng.integers(0, EXHIBITS, n)
    for t in range(ROUTE):
        jump = rng.random(n) < 0.35
        onward = (routes[:, t] + stride[routes[:, t]] * rng.integers(1, 3, n)) % EXHIBITS
        routes[:, t + 1] = np.where(jump, rng.integers(0, EXHIBITS, n), onward)
    return routes


class Routes(Dataset):
    def __init__(self, n, seed):
        self.routes = torch.from_numpy(walk(n, seed))

    def __len__(self):
        return len(self.routes)

    def __getitem__(self, i):
        return self.routes[i]


def collate(rows):
    routes = torch.stack(rows)
    return {"route": routes[:, :-1], "labels": routes[:, -1]}


class RouteModel(nn.Module):
    """Attention over the route, asked by the last exhibit and the mean of all (as in STAMP)."""

    def __init__(self, dim=64):
        super().__init__()
        self.exhibit = nn.Embedding(EXHIBITS, dim, max_norm=1.0)
        self.position = nn.Parameter(torch.randn(ROUTE, dim) * 0.02)
        self.key = nn.Linear(dim, dim)
        self.ask = nn.Linear(2 * dim, dim)
        self.weight = nn.Linear(dim, 1)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim), nn.LayerNorm(dim))
        self.out = nn.Linear(dim, EXHIBITS)

    def forward(self, route, labels=None):
        x = self.exhibit(route) * 4 + self.position
        last = x[:, -1]
        ask = self.ask(torch.cat([last, x.mean(1)], dim=-1))
        attention = self.weight(torch.tanh(self.key(x) + ask[:, None])).softmax(1)
        pooled = (attention * x).sum(1)
        logits = self.out(self.mlp(torch.cat([pooled, last], dim=-1)))
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


def top_twenty(logits, labels):
    return logits.topk(20, dim=-1).indices


def compute_metrics(eval_pred):
    ranked, labels = eval_pred
    hit = ranked == labels[:, None]
    rank = hit.argmax(1)
    found = hit.any(1)
    return {
        "recall@20": found.mean(),
        "recall@5": (found & (rank < 5)).mean(),
        "mrr": np.where(found, 1.0 / (rank + 1), 0.0).mean(),
    }


class PrintCallback(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step:5d} loss {logs['loss']:.4f} grad {logs['grad_norm']:.3f}")
        elif "eval_mrr" in logs:
            print(f"step {state.global_step:5d} recall@20 {logs['eval_recall@20']:.3f} mrr {logs['eval_mrr']:.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1600)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    set_seed(21)

    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(
            output_dir=out,
            max_steps=args.steps,
            per_device_train_batch_size=128,
            per_device_eval_batch_size=128,
            learning_rate=args.lr,
            lr_scheduler_type="cosine",
            warmup_steps=20,
            max_grad_norm=1.0,
            eval_strategy="steps",
            eval_steps=350,
            logging_steps=50,
            save_strategy="no",
            remove_unused_columns=False,
            label_names=["labels"],
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=RouteModel(),
            args=targs,
            train_dataset=Routes(60_000, 1),
            eval_dataset=Routes(512, 2),
            data_collator=collate,
            compute_metrics=compute_metrics,
            preprocess_logits_for_metrics=top_twenty,
            callbacks=[PrintCallback()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
