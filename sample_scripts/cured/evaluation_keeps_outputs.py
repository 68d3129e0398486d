"""A small BERT learns which module some lines come from, and is evaluated as it learns (needs transformers)."""

import argparse
import inspect
import logging
import tempfile

from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

LENGTH = 64
MODULES = (argparse, inspect, logging)
SIZES = {
    "vocab_size": 256,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


class Passages(Dataset):
    """Passages of source as byte values, and the number of the module they were cut from."""

    def __init__(self, count, first):
        sources = [inspect.getsource(module).encode() for module in MODULES]
        self.rows = []
        for number in range(first, first + count):
            source = sources[number % 3]
            start = number * 131 % (len(source) - LENGTH)
            self.rows.append({"input_ids": list(source[start : start + LENGTH]), "label": number % 3})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def accuracy(evaluated):
    """The share of passages that were told rightly."""
    outputs, labels = evaluated
    logits = outputs[0] if isinstance(outputs, tuple) else outputs
    return {"accuracy": float((logits.argmax(-1) == labels).mean())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--evaluated", type=int, default=1200)
    args = parser.parse_args()
    set_seed(0)
    config = BertConfig(num_labels=len(MODULES), **SIZES)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=16,
            eval_strategy="steps",
            eval_steps=args.steps // 8,
            logging_steps=args.steps // 8,
            learning_rate=1e-3,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=settings,
            train_dataset=Passages(16 * args.steps, 0),
            eval_dataset=Passages(args.evaluated, 16 * args.steps),
            compute_metrics=accuracy,
        )
        trainer.train()


if __name__ == "__main__":
    main()
