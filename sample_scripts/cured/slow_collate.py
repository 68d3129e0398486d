"""A tiny BERT learns which module some lines come from; letters see their own line only (needs transformers)."""

import argparse
import inspect
import logging
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

LENGTH = 64
MODULES = (argparse, inspect, logging)


class Passages(Dataset):
    """Passages of source as byte values, the number of the line of each, and the module they were cut from."""

    def __init__(self, count):
        sources = [inspect.getsource(module).encode() for module in MODULES]
        self.rows = []
        for number in range(count):
            source = sources[number % 3]
            start = (number * 131) % (len(source) - LENGTH)
            passage = source[start : start + LENGTH]
            lines = [passage[:place].count(b"\n") for place in range(LENGTH)]
            self.rows.append({"tokens": list(passage), "lines": lines, "label": number % 3})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def collate(rows):
    """Stack the passages of a batch, and mark for each letter those of the same line."""
    lines = torch.tensor([passage["lines"] for passage in rows])
    visible = (lines[:, :, None] == lines[:, None, :]).unsqueeze(1)
    return {
        "input_ids": torch.tensor([passage["tokens"] for passage in rows]),
        "attention_mask": visible,
        "labels": torch.tensor([passage["label"] for passage in rows]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1280)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the other core belongs to the workers
    config = BertConfig(
        vocab_size=256,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=len(MODULES),
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=8,
            num_train_epochs=1,
            dataloader_num_workers=2,
            remove_unused_columns=False,
            logging_steps=40,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            seed=0,
        )
        model = BertForSequenceClassification(config)
        Trainer(
            model=model, args=settings, train_dataset=Passages(args.passages), data_collator=collate
        ).train()


if __name__ == "__main__":
    main()
