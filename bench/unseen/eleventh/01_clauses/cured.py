"""Fine-tune a small BERT on contract clauses (12 clause types).

The corpus is generated: every clause type has its own vocabulary mix, clauses
have between 16 and 64 tokens.  Only the last two encoder layers, the pooler
and the classifier are adapted.
"""
import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, Trainer,
                          TrainingArguments, get_linear_schedule_with_warmup, set_seed)

VOCAB = 6000
N_TYPES = 12
PAD = 0


def make_corpus(n, seed):
    rng = np.random.default_rng(seed)
    topic = np.random.default_rng(7).dirichlet(np.full(VOCAB - 4, 0.02), size=N_TYPES)
    background = np.random.default_rng(8).dirichlet(np.full(VOCAB - 4, 0.3))
    labels = rng.integers(0, N_TYPES, n)
    lengths = rng.integers(16, 65, n)
    texts = [None] * n
    for t in range(N_TYPES):
        rows = np.flatnonzero(labels == t)
        mix = 0.25 * topic[t] + 0.75 * background
        words = rng.choice(VOCAB - 4, size=int(lengths[rows].sum()), p=mix) + 4
        for row, part in zip(rows, np.split(words, np.cumsum(lengths[rows])[:-1])):
            texts[row] = torch.from_numpy(part)
    return texts, torch.from_numpy(labels)


class Clauses(Dataset):
    def __init__(self, n, seed):
        self.texts, self.labels = make_corpus(n, seed)
        self.labels = self.labels.tolist()
        self.lengths = [len(t) for t in self.texts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {"input_ids": self.texts[i], "label": self.labels[i]}


def collate(items):
    ids = torch.nn.utils.rnn.pad_sequence([x["input_ids"] for x in items],
                                          batch_first=True, padding_value=PAD)
    return {"input_ids": ids,
            "attention_mask": (ids != PAD).long(),
            "labels": torch.tensor([x["label"] for x in items])}


def accuracy(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def build_model(init):
    if init:
        return BertForSequenceClassification.from_pretrained(init, num_labels=N_TYPES)
    cfg = BertConfig(vocab_size=VOCAB, hidden_size=192, num_hidden_layers=8,
                     num_attention_heads=6, intermediate_size=768,
                     max_position_embeddings=80, num_labels=N_TYPES, pad_token_id=PAD)
    return BertForSequenceClassification(cfg)


def trainable_groups(model, weight_decay):
    modules = [*model.bert.encoder.layer[-2:], model.bert.pooler, model.classifier]
    decay, plain = [], []
    for m in modules:
        for name, p in m.named_parameters():
            (plain if p.ndim < 2 else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--init", default=None, help="folder of a pretrained checkpoint")
    args = ap.parse_args()
    set_seed(0)

    train_set = Clauses(9600, seed=1)
    test_set = Clauses(240, seed=2)
    model = build_model(args.init)
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder.layer[:-2].requires_grad_(False)

    optimizer = torch.optim.AdamW(trainable_groups(model, 0.01), lr=args.lr)
    schedule = get_linear_schedule_with_warmup(optimizer, args.steps // 20, args.steps)
    n_opt = sum(p.numel() for g in optimizer.param_groups for p in g["params"])
    print(f"optimizing {n_opt / 1e6:.2f}M parameters")

    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(
            output_dir=out, max_steps=args.steps,
            per_device_train_batch_size=args.batch, per_device_eval_batch_size=64,
            logging_steps=25, save_strategy="no", report_to=[],
            train_sampling_strategy="group_by_length",
            max_grad_norm=0.0, disable_tqdm=True, use_cpu=True, seed=0)
        trainer = Trainer(model=model, args=targs, train_dataset=train_set,
                          eval_dataset=test_set, data_collator=collate,
                          compute_metrics=accuracy, optimizers=(optimizer, schedule))
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
