"""Routing of customer tickets (five languages) to departments, a small encoder trained from scratch with the HF Trainer."""
import argparse
import random
from collections import Counter

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed)

DEPARTMENTS = ["billing", "delivery", "returns", "account", "technical", "praise"]
LANGUAGES = ["de", "fr", "it", "pl", "nl"]
PAD, CLS, SEP, OFFSET = 0, 1, 2, 3
SYLLABLES = [c + v for c in "bcdfghklmnprstvwz" for v in ("a", "e", "i", "o", "u", "ei", "ou")]


def make_lexicon(rng, n):
    return ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(n)]


def make_corpus(n, seed):
    """Tickets: everyday words of the language, with some words that belong to the department."""
    rng = random.Random(seed)
    common = {lang: make_lexicon(rng, 500) for lang in LANGUAGES}
    special = {(lang, d): make_lexicon(rng, 40) for lang in LANGUAGES for d in range(len(DEPARTMENTS))}
    texts, labels = [], []
    for _ in range(n):
        lang, d = rng.choice(LANGUAGES), rng.randrange(len(DEPARTMENTS))
        other = rng.randrange(len(DEPARTMENTS))
        words = []
        for _ in range(rng.randint(28, 46)):
            u = rng.random()
            pool = special[lang, d] if u < 0.10 else special[lang, other] if u < 0.14 else common[lang]
            words.append(pool[min(int(rng.expovariate(5) * len(pool)), len(pool) - 1)])
        texts.append(" ".join(words))
        labels.append(d)
    return texts, labels


class WordTokenizer:
    """Whole words to ids; the words are those of the training tickets, others share one id."""

    def __init__(self, texts, max_length=48):
        words = sorted({w for t in texts for w in t.lower().split()})
        self.ids = {w: OFFSET + 1 + i for i, w in enumerate(words)}
        self.vocab_size, self.max_length = OFFSET + 1 + len(words), max_length

    def word_id(self, word):
        return self.ids.get(word, OFFSET)

    def __call__(self, text):
        ids = [self.word_id(w) for w in text.lower().split()][:self.max_length - 2]
        return [CLS, *ids, SEP]


class Tickets(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.ids = [tokenizer(t) for t in texts]
        self.labels = labels

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "label": self.labels[i]}


def collate(items):
    longest = max(len(x["input_ids"]) for x in items)
    ids = torch.full((len(items), longest), PAD)
    for row, x in zip(ids, items):
        row[:len(x["input_ids"])] = torch.tensor(x["input_ids"])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": torch.tensor([x["label"] for x in items])}


def metrics(prediction):
    guess = np.argmax(prediction.predictions, axis=-1)
    truth = prediction.label_ids
    f1 = []
    for d in range(len(DEPARTMENTS)):
        tp = np.sum((guess == d) & (truth == d))
        f1.append(2 * tp / max(np.sum(guess == d) + np.sum(truth == d), 1))
    return {"accuracy": float(np.mean(guess == truth)), "macro_f1": float(np.mean(f1))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=4000)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--output_dir", default="tickets_out")
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    set_seed(args.seed)

    texts, labels = make_corpus(args.tickets, args.seed)
    cut = int(0.92 * len(texts))
    tokenizer = WordTokenizer(texts[:cut])
    train_set = Tickets(texts[:cut], labels[:cut], tokenizer)
    valid_set = Tickets(texts[cut:], labels[cut:], tokenizer)
    print(f"{len(train_set)} tickets for training, {len(valid_set)} held out; departments {dict(Counter(labels))}")

    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=384,
        max_position_embeddings=64,
        type_vocab_size=1,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
        num_labels=len(DEPARTMENTS),
        pad_token_id=PAD,
        id2label=dict(enumerate(DEPARTMENTS)),
        label2id={d: i for i, d in enumerate(DEPARTMENTS)},
    )
    model = BertForSequenceClassification(config)
    training = TrainingArguments(
        output_dir=args.output_dir,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=64,
        learning_rate=args.lr,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        logging_steps=20,
        eval_strategy="steps",
        eval_steps=80,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        seed=args.seed,
    )
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=train_set,
        eval_dataset=valid_set,
        data_collator=collate,
        compute_metrics=metrics,
    )
    trainer.train()
    result = trainer.evaluate()
    print({k: round(v, 4) for k, v in result.items()})


if __name__ == "__main__":
    main()
