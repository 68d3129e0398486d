"""Route support tickets to teams: a small BERT fine-tuned with the Hugging Face Trainer."""
import argparse
import logging
import random
from collections import Counter

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

logger = logging.getLogger(__name__)

TEAMS = {
    "billing": "invoice charge refund card payment receipt tax price amount subscription".split(),
    "login": "password account locked reset email code signin session token expired".split(),
    "shipping": "parcel delivery late courier address tracking lost damaged box return".split(),
    "technical": "crash error screen update version install slow freeze driver log".split(),
    "sales": "quote offer upgrade plan seats discount demo trial contract renewal".split(),
}
COMMON = ("hello team i have a problem with my the since yesterday please help it is not working "
          "as before can you check this and tell me what to do thanks regards we need an answer "
          "today because our customer is waiting for days now").split()


def make_tickets(n, seed):
    rng = random.Random(seed)
    names = list(TEAMS)
    texts, labels = [], []
    for _ in range(n):
        y = rng.randrange(len(names))
        words = []
        for _ in range(rng.randint(18, 44)):
            r = rng.random()
            if r < 0.12:
                words.append(rng.choice(TEAMS[names[y]]))
            elif r < 0.22:
                words.append(rng.choice(TEAMS[rng.choice(names)]))
            else:
                words.append(rng.choice(COMMON))
        texts.append(" ".join(words))
        labels.append(y)
    return texts, labels


class WordTokenizer:
    def __init__(self, texts, min_count=2):
        counts = Counter(w for t in texts for w in t.split())
        self.vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + [w for w, c in counts.items() if c >= min_count]
        self.index = {w: i for i, w in enumerate(self.vocab)}

    def encode(self, text, max_length):
        ids = [self.index.get(w, 1) for w in text.split()][:max_length - 2]
        return [2] + ids + [3]


class TicketDataset(Dataset):
    def __init__(self, texts, labels, tokenizer, max_length):
        self.ids = [tokenizer.encode(t, max_length) for t in texts]
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


def collate(items):
    longest = max(len(x["input_ids"]) for x in items)
    ids = torch.zeros(len(items), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, x in enumerate(items):
        n = len(x["input_ids"])
        ids[row, :n] = torch.tensor(x["input_ids"])
        mask[row, :n] = 1
    return {"input_ids": ids, "attention_mask": mask,
            "labels": torch.tensor([x["labels"] for x in items])}


class TicketTrainer(Trainer):
    """Weighted loss for rare teams, and a training accuracy beside the loss."""

    def __init__(self, *args, class_weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights
        self.hits = torch.zeros(())
        self.seen = 0

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels, weight=self.class_weights)
        if model.training:
            self.update_accuracy(outputs.logits.detach(), labels)
        return (loss, outputs) if return_outputs else loss

    def update_accuracy(self, logits, labels):
        self.hits += (logits.argmax(-1) == labels).sum()
        self.seen += len(logits)

    def log(self, logs, *args, **kwargs):
        if "loss" in logs and self.seen:
            logs["train_accuracy"] = round((self.hits / self.seen).item(), 4)
            self.hits.zero_()
            self.seen = 0
        super().log(logs, *args, **kwargs)


def compute_metrics(pred):
    guess = pred.predictions.argmax(-1)
    return {"accuracy": accuracy_score(pred.label_ids, guess),
            "macro_f1": f1_score(pred.label_ids, guess, average="macro")}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train-size", type=int, default=5000)
    p.add_argument("--eval-size", type=int, default=320)
    p.add_argument("--epochs", type=float, default=2)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--max-length", type=int, default=64)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--output-dir", default="/tmp/support_tickets")
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO)

    train_texts, train_labels = make_tickets(args.train_size, 1)
    eval_texts, eval_labels = make_tickets(args.eval_size, 2)
    tokenizer = WordTokenizer(train_texts)
    train_set = TicketDataset(train_texts, train_labels, tokenizer, args.max_length)
    eval_set = TicketDataset(eval_texts, eval_labels, tokenizer, args.max_length)
    logger.info("vocabulary of %d words", len(tokenizer.vocab))

    counts = np.bincount(train_labels, minlength=len(TEAMS))
    weights = torch.tensor(counts.sum() / (len(TEAMS) * counts), dtype=torch.float32)
    config = BertConfig(vocab_size=len(tokenizer.vocab), hidden_size=96, num_hidden_layers=3,
                        num_attention_heads=4, intermediate_size=256,
                        max_position_embeddings=args.max_length, num_labels=len(TEAMS))
    model = BertForSequenceClassification(config)
    train_args = TrainingArguments(
        output_dir=args.output_dir, num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size, per_device_eval_batch_size=64,
        learning_rate=args.lr, warmup_steps=20, weight_decay=0.01, logging_steps=25,
        eval_strategy="epoch", save_strategy="no", report_to=[], use_cpu=True,
        remove_unused_columns=False, disable_tqdm=True, seed=5)
    trainer = TicketTrainer(model=model, args=train_args, train_dataset=train_set,
                            eval_dataset=eval_set, data_collator=collate,
                            compute_metrics=compute_metrics, class_weights=weights)
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
