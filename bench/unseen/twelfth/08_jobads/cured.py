"""Classify job advertisements into occupational groups with a small BERT, HF Trainer."""
import argparse
import tempfile

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

VOCAB = 4000
PAD, CLS, SEP = 0, 1, 2
MAX_LEN = 48
GROUPS = 12


def make_ads(n, seed, topic_words):
    """Word ids of an ad: common words mixed with words of its occupational group."""
    rng = np.random.default_rng(seed)
    ads, labels = [], rng.integers(0, GROUPS, n)
    for y in labels:
        length = int(rng.integers(42, 160))
        common = 3 + (rng.pareto(1.2, length) * 40).astype(np.int64) % (VOCAB - 3)
        own = rng.choice(topic_words[y], length)
        ads.append(np.where(rng.random(length) < 0.12, own, common))
    return ads, labels


class AdDataset(Dataset):
    def __init__(self, ads, labels):
        self.rows = [
            {"input_ids": np.concatenate([[CLS], a[: MAX_LEN - 2], [SEP]]), "label": int(y)}
            for a, y in zip(ads, labels)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class PadCollator:
    """Pads to the longest ad of the batch."""

    def __call__(self, rows):
        longest = max(len(r["input_ids"]) for r in rows)
        ids = np.full((len(rows), longest), PAD, dtype=np.int64)
        for k, r in enumerate(rows):
            ids[k, : len(r["input_ids"])] = r["input_ids"]
        ids = torch.from_numpy(ids)
        return {
            "input_ids": ids,
            "attention_mask": (ids != PAD).long(),
            "labels": torch.tensor([r["label"] for r in rows]),
        }


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    if isinstance(logits, tuple):
        logits = logits[0]
    pred = logits.argmax(-1)
    return {
        "accuracy": accuracy_score(labels, pred),
        "macro_f1": f1_score(labels, pred, average="macro"),
    }


class PrintCallback(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step:5d} loss {logs['loss']:.4f} lr {logs['learning_rate']:.2e}")
        elif "eval_loss" in logs:
            print(f"step {state.global_step:5d} eval loss {logs['eval_loss']:.4f} "
                  f"acc {logs['eval_accuracy']:.3f} f1 {logs['eval_macro_f1']:.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    set_seed(11)

    topic_words = np.random.default_rng(0).integers(3, VOCAB, (GROUPS, 40))
    train_set = AdDataset(*make_ads(12000, 1, topic_words))
    eval_set = AdDataset(*make_ads(1600, 2, topic_words))

    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=96,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=384,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=GROUPS,
    )
    model = BertForSequenceClassification(config)

    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(
            output_dir=out,
            max_steps=args.steps,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=8,
            learning_rate=args.lr,
            warmup_steps=30,
            weight_decay=0.01,
            eval_strategy="steps",
            eval_steps=200,
            logging_steps=25,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=model,
            args=targs,
            train_dataset=train_set,
            eval_dataset=eval_set,
            data_collator=PadCollator(),
            compute_metrics=compute_metrics,
            callbacks=[PrintCallback()],
        )
        trainer.train()

    # pooled features of a few ads for the map of the labour market
    model.eval()
    batch = PadCollator()([eval_set[i] for i in range(64)])
    with torch.no_grad():
        hidden = model(batch["input_ids"], attention_mask=batch["attention_mask"],
                       output_hidden_states=True).hidden_states[-1]
    print("features for the map:", tuple(hidden[:, 0].shape))


if __name__ == "__main__":
    main()
