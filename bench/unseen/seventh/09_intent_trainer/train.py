"""Intent classification of short messages with a small BERT and the Hugging Face Trainer."""
import argparse
import tempfile

import numpy as np
import torch
from sklearn.metrics import f1_score
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainerCallback,
                          TrainingArguments)
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()
PAD, CLS, SEP, FIRST = 0, 1, 2, 5


class Messages(torch.utils.data.Dataset):
    """Already tokenised messages; every intent prefers some of the vocabulary."""

    def __init__(self, n, vocab, intents, seed):
        rng = np.random.default_rng(seed)
        prefer = np.random.default_rng(0).integers(FIRST, vocab, (intents, 40))
        self.rows = []
        for _ in range(n):
            y = int(rng.integers(intents))
            length = int(np.clip(rng.normal(22, 5), 10, 36))
            body = rng.integers(FIRST, vocab, length)
            hot = rng.random(length) < 0.2
            body[hot] = rng.choice(prefer[y], hot.sum())
            self.rows.append({"input_ids": [CLS, *body.tolist(), SEP], "labels": y})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.tensor([r["input_ids"] + [PAD] * (longest - len(r["input_ids"])) for r in rows])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(),
            "labels": torch.tensor([r["labels"] for r in rows])}


def macro_f1_interval(labels, preds, rounds=300, seed=0):
    """Point estimate and 95 % interval of macro F1, by resampling the test messages."""
    rng = np.random.default_rng(seed)
    scores = []
    for _ in range(rounds):
        pick = rng.integers(0, len(labels), len(labels))
        scores.append(f1_score(labels[pick], preds[pick], average="macro", zero_division=0))
    low, high = np.percentile(scores, [2.5, 97.5])
    return {"f1": f1_score(labels, preds, average="macro", zero_division=0), "f1_low": low, "f1_high": high}


def compute_metrics(pred):
    preds = pred.predictions.argmax(-1)
    return {"accuracy": float((preds == pred.label_ids).mean()), **macro_f1_interval(pred.label_ids, preds)}


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:4d}  loss {float(logs['loss']):.4f}", flush=True)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        print(f"step {state.global_step:4d}  eval f1 {metrics['eval_f1']:.3f}  "
              f"accuracy {metrics['eval_accuracy']:.3f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--messages", type=int, default=5000)
    p.add_argument("--vocab", type=int, default=3000)
    p.add_argument("--intents", type=int, default=12)
    p.add_argument("--micro-batch", type=int, default=2)
    p.add_argument("--accumulate", type=int, default=16)
    p.add_argument("--eval-steps", type=int, default=25)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    train_set = Messages(args.messages, args.vocab, args.intents, seed=1)
    test_set = Messages(300, args.vocab, args.intents, seed=2)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=args.vocab, hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=384, max_position_embeddings=64, num_labels=args.intents,
                        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0)
    model = BertForSequenceClassification(config)

    training = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="intent_"), use_cpu=True, max_steps=args.steps,
        per_device_train_batch_size=args.micro_batch, gradient_accumulation_steps=args.accumulate,
        per_device_eval_batch_size=100, learning_rate=args.lr, warmup_steps=15,
        lr_scheduler_type="linear", optim="adamw_torch_fused", weight_decay=0.01,
        eval_strategy="steps", eval_steps=args.eval_steps, logging_steps=25, save_strategy="no",
        report_to="none", disable_tqdm=True, seed=0)
    trainer = Trainer(model=model, args=training, train_dataset=train_set, eval_dataset=test_set,
                      data_collator=collate, compute_metrics=compute_metrics, callbacks=[Report()])
    trainer.train()

    final = trainer.predict(test_set)
    preds = final.predictions.argmax(-1)
    interval = macro_f1_interval(final.label_ids, preds)
    print(f"final macro f1 {interval['f1']:.3f}  [{interval['f1_low']:.3f}, {interval['f1_high']:.3f}]")


if __name__ == "__main__":
    main()
