"""Route support tickets to a team with a small BERT trained from scratch by the Hugging Face Trainer."""
import os
import random
import tempfile
from dataclasses import dataclass, field

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

TEAMS = ["billing", "network", "hardware", "account"]
HINTS = {
    "billing": "invoice refund charge payment card price".split(),
    "network": "wifi router signal vpn latency outage".split(),
    "hardware": "screen battery keyboard fan cable printer".split(),
    "account": "password login email locked profile reset".split(),
}
FILLER = ("hello please help since yesterday the my customer again still cannot today when after "
          "update thanks issue problem it is not working tried twice and nothing changed").split()


@dataclass
class Settings:
    tickets: int = 800
    held_out: int = 96
    batch: int = 8
    epochs: int = 1
    max_length: int = 192
    hidden: int = 128
    layers: int = 3
    lr: float = 5e-4
    seed: int = 42
    teams: list = field(default_factory=lambda: list(TEAMS))


def write_ticket(rng):
    team = rng.choice(TEAMS)
    length = rng.randint(150, 185) if rng.random() < 0.01 else rng.randint(12, 45)
    words = [rng.choice(HINTS[team]) if rng.random() < 0.15 else rng.choice(FILLER) for _ in range(length)]
    return " ".join(words), TEAMS.index(team)


class WordTokenizer:
    def __init__(self):
        words = sorted(set(FILLER) | {w for hint in HINTS.values() for w in hint})
        self.ids = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + words)}
        self.pad_id = 0

    def __len__(self):
        return len(self.ids)

    def encode(self, text, max_length):
        body = [self.ids.get(w, 1) for w in text.split()][:max_length - 2]
        return [2] + body + [3]

    def pad(self, sequences, length):
        ids = torch.full((len(sequences), length), self.pad_id)
        mask = torch.zeros(len(sequences), length, dtype=torch.long)
        for row, seq in enumerate(sequences):
            ids[row, :len(seq)] = torch.tensor(seq)
            mask[row, :len(seq)] = 1
        return ids, mask


class Tickets(Dataset):
    def __init__(self, n, tokenizer, settings, seed):
        rng = random.Random(seed)
        pairs = [write_ticket(rng) for _ in range(n)]
        self.items = [(tokenizer.encode(text, settings.max_length), label) for text, label in pairs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collator:
    def __init__(self, tokenizer, max_length):
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __call__(self, items):
        sequences = [s for s, _ in items]
        ids, mask = self.tokenizer.pad(sequences, max(len(s) for s in sequences))
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([y for _, y in items])}


def accuracy(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


def build_model(settings, vocab):
    return BertForSequenceClassification(BertConfig(
        vocab_size=vocab, hidden_size=settings.hidden, num_hidden_layers=settings.layers, num_attention_heads=4,
        intermediate_size=4 * settings.hidden, max_position_embeddings=settings.max_length,
        num_labels=len(settings.teams)))


def main():
    settings = Settings()
    set_seed(settings.seed)
    tokenizer = WordTokenizer()
    train = Tickets(settings.tickets, tokenizer, settings, settings.seed)
    held_out = Tickets(settings.held_out, tokenizer, settings, settings.seed + 1)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, num_train_epochs=settings.epochs, learning_rate=settings.lr,
            per_device_train_batch_size=settings.batch, per_device_eval_batch_size=32, logging_steps=25,
            eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
            seed=settings.seed)
        trainer = Trainer(model=build_model(settings, len(tokenizer)), args=args, train_dataset=train,
                          eval_dataset=held_out, data_collator=Collator(tokenizer, settings.max_length),
                          compute_metrics=accuracy)
        trainer.train()


if __name__ == "__main__":
    main()
