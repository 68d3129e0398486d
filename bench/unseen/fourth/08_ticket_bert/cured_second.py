"""Route support tickets to a queue: tiny BERT trained from scratch with the HF Trainer."""
import os
import random
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

QUEUES = ["billing", "shipping", "login", "returns", "hardware"]
SYLLABLES = ["ka", "lo", "mi", "ter", "ran", "sol", "vi", "dex", "pu", "ne", "gor", "lit"]
MAX_LEN = 160


def make_words(n):
    words = set()
    while len(words) < n:
        words.add("".join(random.choices(SYLLABLES, k=random.randint(2, 5))))
    return sorted(words)


def make_tickets(n, words):
    """Short texts, each queue has its own set of favourite words."""
    favourites = [random.sample(words, 60) for _ in QUEUES]
    texts, labels = [], []
    for _ in range(n):
        label = random.randrange(len(QUEUES))
        length = int(min(120, max(5, random.gauss(24, 8))))
        texts.append(
            " ".join(
                random.choice(favourites[label] if random.random() < 0.3 else words)
                for _ in range(length)
            )
        )
        labels.append(label)
    return texts, labels


def build_tokenizer(words):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocab = {w: i for i, w in enumerate(special + words)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


class TicketDataset(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.enc = tokenizer(texts, padding="max_length", truncation=True, max_length=MAX_LEN)
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        item = {k: self.enc[k][i] for k in ("input_ids", "attention_mask")}
        item["labels"] = self.labels[i]
        return item


def compute_metrics(pred):
    return {"accuracy": float((np.argmax(pred.predictions, axis=-1) == pred.label_ids).mean())}


def main():
    set_seed(11)
    words = make_words(20000)
    tokenizer = build_tokenizer(words)
    texts, labels = make_tickets(880, words)
    train_set = TicketDataset(texts[:720], labels[:720], tokenizer)
    eval_set = TicketDataset(texts[720:], labels[720:], tokenizer)

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=MAX_LEN,
        num_labels=len(QUEUES),
    )
    model = BertForSequenceClassification(config)

    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            num_train_epochs=4,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            learning_rate=5e-4,
            warmup_steps=20,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=2,
            logging_steps=20,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=11,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=train_set,
            eval_dataset=eval_set,
            processing_class=tokenizer,
            compute_metrics=compute_metrics,
        )
        start = time.time()
        trainer.train()
        print(f"done: {trainer.state.global_step} steps in {time.time() - start:.1f} s")
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
