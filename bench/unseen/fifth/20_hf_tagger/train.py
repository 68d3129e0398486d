"""Slot tagging with a small DistilBERT trained from scratch through the Trainer."""
import random
import tempfile

import numpy as np
import torch
from transformers import (
    DistilBertConfig,
    DistilBertForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

SLOTS = {"city": ["paris", "lima", "oslo", "kyoto", "cairo", "quito", "bern", "accra"],
         "day": ["monday", "tuesday", "friday", "sunday", "tomorrow", "tonight"],
         "dish": ["ramen", "tacos", "paella", "curry", "pizza", "falafel", "pho"]}
PATTERNS = ["find me a flight to {city} on {day} please",
            "book a table for {dish} in {city}",
            "is there good {dish} near the old harbour of {city} on {day} or maybe later in the week",
            "remind me on {day} to order {dish}",
            "what is the weather like in {city}",
            "how long does the night train from {city} to {city} take on {day} and can one eat {dish} on board"]
TAGS = ["O"] + sorted(SLOTS)
PAD, UNK = 0, 1


def sentences(n, seed):
    rnd = random.Random(seed)
    rows = []
    for _ in range(n):
        words, tags = [], []
        for pattern in rnd.choices(PATTERNS, k=rnd.randint(2, 4)):
            for token in pattern.split():
                slot = token.strip("{}") if token.startswith("{") else None
                words.append(rnd.choice(SLOTS[slot]) if slot else token)
                tags.append(TAGS.index(slot or "O"))
        rows.append((words, tags))
    return rows


class Tagged(torch.utils.data.Dataset):
    def __init__(self, rows, vocab):
        self.items = [{"input_ids": [vocab.get(w, UNK) for w in words], "labels": tags}
                      for words, tags in rows]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    longest = max(len(it["input_ids"]) for it in items)
    ids = torch.tensor([it["input_ids"] + [PAD] * (longest - len(it["input_ids"])) for it in items])
    labels = torch.tensor([it["labels"] + [-100] * (longest - len(it["labels"])) for it in items])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def metrics(pred):
    guess = pred.predictions.argmax(-1)
    keep = pred.label_ids != -100
    slots = keep & (pred.label_ids > 0)
    return {"token_accuracy": float((guess == pred.label_ids)[keep].mean()),
            "slot_recall": float((guess == pred.label_ids)[slots].mean())}


def main():
    set_seed(9)
    rows = sentences(3600, seed=1)
    words = sorted({w for ws, _ in rows for w in ws})
    vocab = {w: i + 2 for i, w in enumerate(words)}
    train_set, eval_set = Tagged(rows[:3400], vocab), Tagged(rows[3400:], vocab)
    lengths = [len(it["input_ids"]) for it in train_set.items]
    print(f"{len(train_set)} sentences, vocabulary {len(vocab) + 2}, {np.mean(lengths):.1f} words on average")

    model = DistilBertForTokenClassification(DistilBertConfig(
        vocab_size=len(vocab) + 2, dim=160, hidden_dim=480, n_layers=3, n_heads=4,
        max_position_embeddings=128, num_labels=len(TAGS), pad_token_id=PAD))
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="tagger_"),
        num_train_epochs=2,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=100,
        learning_rate=5e-4,
        warmup_steps=20,
        train_sampling_strategy="group_by_length",
        logging_steps=50,
        save_strategy="no",
        eval_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=train_set, eval_dataset=eval_set,
                      data_collator=collate, compute_metrics=metrics)
    out = trainer.train()
    print(f"loss {out.training_loss:.3f}, {out.metrics['train_samples_per_second']:.0f} sentences/s")


if __name__ == "__main__":
    main()
