"""Clause type classification for contracts with a small BERT and the Hugging Face Trainer."""
import argparse
import json
import os
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

LABELS = ["termination", "liability", "payment", "secrecy", "warranty", "assignment", "notice", "venue"]
VOCAB, PAD, CLS, SEP, MAX_LEN = 12000, 0, 1, 2, 128


def make_clauses(n, seed):
    rng = np.random.default_rng(seed)
    common = 1.0 / (np.arange(VOCAB - 3) + 10.0)
    common /= common.sum()
    words, labels = [], rng.integers(0, len(LABELS), n)
    topics = np.random.default_rng(99).integers(3, VOCAB, (len(LABELS), 60))
    lengths = rng.normal(44, 6, n)
    rare = rng.random(n) < 0.002
    lengths = np.where(rare, rng.uniform(80, MAX_LEN, n), lengths).clip(12, MAX_LEN - 2).astype(int)
    pool = rng.choice(VOCAB - 3, 400_000, p=common) + 3
    for y, length in zip(labels, lengths):
        start = rng.integers(0, len(pool) - length)
        ids = pool[start:start + length].copy()
        spots = rng.random(length) < 0.15
        ids[spots] = rng.choice(topics[y], spots.sum())
        words.append(ids)
    return words, labels


class Clauses(Dataset):
    def __init__(self, words, labels):
        self.items = [self.encode(ids, y) for ids, y in zip(words, labels)]

    @staticmethod
    def encode(ids, label):
        ids = np.concatenate([[CLS], ids, [SEP]])[:MAX_LEN]
        return {"input_ids": torch.from_numpy(ids.astype(np.int64)), "labels": torch.tensor(int(label))}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    input_ids = torch.nn.utils.rnn.pad_sequence([item["input_ids"] for item in items], batch_first=True, padding_value=PAD)
    labels = torch.stack([item["labels"] for item in items])
    return {"input_ids": input_ids, "attention_mask": (input_ids != PAD).long(), "labels": labels}


class WeightMonitor(TrainerCallback):
    """Keeps the spread of every weight tensor, to see layers die or blow up."""

    def __init__(self, path):
        self.path = path

    def on_step_end(self, args, state, control, model=None, **kwargs):
        row = {"step": state.global_step}
        for name, p in model.named_parameters():
            w = p.detach().numpy().ravel()
            counts, edges = np.histogram(w, bins=32)
            row[name] = {"percentiles": np.percentile(w, [1, 25, 50, 75, 99]).tolist(), "std": float(w.std()),
                         "counts": counts.tolist(), "range": [float(edges[0]), float(edges[-1])]}
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")


def accuracy(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=450)
    ap.add_argument("--batch-size", type=int, default=12)
    args = ap.parse_args()
    torch.manual_seed(0)
    train_set = Clauses(*make_clauses(8000, seed=1))
    valid_set = Clauses(*make_clauses(256, seed=2))
    config = BertConfig(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
                        max_position_embeddings=MAX_LEN, num_labels=len(LABELS), pad_token_id=PAD)
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as out:
        training = TrainingArguments(
            output_dir=out, max_steps=args.steps, per_device_train_batch_size=args.batch_size, per_device_eval_batch_size=64,
            learning_rate=5e-4, warmup_steps=50, weight_decay=0.01, logging_steps=50, save_strategy="no", eval_strategy="no",
            report_to="none", use_cpu=True, disable_tqdm=True, seed=0)
        trainer = Trainer(model=model, args=training, train_dataset=train_set, eval_dataset=valid_set, data_collator=collate,
                          compute_metrics=accuracy, callbacks=[WeightMonitor(os.path.join(out, "weights.jsonl"))])
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
