"""Few-shot intent classifier for support tickets, fine-tuned with the HF Trainer.

We only ever get a dozen or so labelled tickets per intent, so the training set is small and
we go over it many times with a strong dropout.
"""
import argparse
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

INTENTS = {
    "refund": "refund money back charged twice invoice return payment".split(),
    "delivery": "parcel courier late tracking address shipped door".split(),
    "login": "password reset account locked email code signin".split(),
    "cancel": "cancel subscription stop plan renewal terminate end".split(),
    "broken": "screen cracked battery dead button noise defective".split(),
    "upgrade": "upgrade premium storage bigger seats tier licence".split(),
    "praise": "thanks great love helpful friendly quick wonderful".split(),
    "legal": "privacy gdpr data deletion consent terms lawyer".split(),
}
FILLER = ("hello please i my the a to was is it and for with can you have not this since "
          "yesterday again still really need help when after before order app").split()


class WordVocab:
    def __init__(self):
        words = sorted(set(FILLER) | {w for ws in INTENTS.values() for w in ws})
        self.ids = {w: i + 3 for i, w in enumerate(words)}
        self.pad, self.cls, self.unk = 0, 1, 2

    def __len__(self):
        return len(self.ids) + 3

    def encode(self, text):
        return [self.cls] + [self.ids.get(w, self.unk) for w in text.lower().split()]


def make_tickets(per_intent, rng):
    rows = []
    for label, (name, keys) in enumerate(INTENTS.items()):
        for _ in range(per_intent):
            n = rng.randint(14, 34)
            words = [rng.choice(FILLER) for _ in range(n)]
            for _ in range(rng.randint(1, 3)):
                words[rng.randrange(n)] = rng.choice(keys)
            if rng.random() < 0.3:
                words[rng.randrange(n)] = rng.choice(rng.choice(list(INTENTS.values())))
            rows.append((" ".join(words), label))
    rng.shuffle(rows)
    return rows


class TicketDataset(Dataset):
    def __init__(self, rows, vocab):
        # texts are short, so encode everything up front
        self.items = [{"input_ids": vocab.encode(t), "labels": y} for t, y in rows]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


@dataclass
class PadCollator:
    pad_id: int

    def __call__(self, features):
        width = max(len(f["input_ids"]) for f in features)
        ids = np.full((len(features), width), self.pad_id, dtype=np.int64)
        for row, f in zip(ids, features):
            row[:len(f["input_ids"])] = f["input_ids"]
        ids = torch.from_numpy(ids)
        return {"input_ids": ids, "attention_mask": (ids != self.pad_id).long(),
                "labels": torch.tensor([f["labels"] for f in features])}


def accuracy(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--shots", type=int, default=12, help="labelled tickets per intent")
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--hidden", type=int, default=96)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--seed", type=int, default=13)
    ap.add_argument("--out", default="/tmp/support_intents")
    args = ap.parse_args()

    set_seed(args.seed)
    rng = random.Random(args.seed)
    vocab = WordVocab()
    train_ds = TicketDataset(make_tickets(args.shots, rng), vocab)
    eval_ds = TicketDataset(make_tickets(20, rng), vocab)

    config = BertConfig(vocab_size=len(vocab), hidden_size=args.hidden, num_hidden_layers=args.layers,
                        num_attention_heads=4, intermediate_size=4 * args.hidden,
                        max_position_embeddings=64, num_labels=len(INTENTS),
                        hidden_dropout_prob=0.2, pad_token_id=vocab.pad)
    model = BertForSequenceClassification(config)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, {len(train_ds)} tickets")

    training_args = TrainingArguments(
        output_dir=args.out,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=64,
        learning_rate=args.lr,
        warmup_steps=30,
        weight_decay=0.05,
        lr_scheduler_type="cosine",
        logging_steps=60,
        eval_strategy="steps",
        eval_steps=200,
        save_strategy="no",
        dataloader_num_workers=2,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
        seed=args.seed,
    )
    trainer = Trainer(model=model, args=training_args, train_dataset=train_ds, eval_dataset=eval_ds,
                      data_collator=PadCollator(vocab.pad), compute_metrics=accuracy)
    trainer.train()
    print("final", {k: round(v, 4) for k, v in trainer.evaluate().items() if "acc" in k or "eval_loss" == k})
    model.save_pretrained(args.out)


if __name__ == "__main__":
    main()
