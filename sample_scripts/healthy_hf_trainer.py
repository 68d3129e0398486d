"""A GPT-2 with small random weights reads Python source with the Trainer of transformers (needs transformers)."""

# expect: verdict=healthy finding=none

import argparse
import inspect
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Source(torch.utils.data.Dataset):
    """Pieces of a module's source, letter by letter."""

    def __init__(self, text, length, count):
        self.letters = torch.tensor(list(text.encode("ascii", "replace")))
        self.length, self.count = length, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        start = index * 977 % (len(self.letters) - self.length)
        piece = self.letters[start : start + self.length]
        return {"input_ids": piece, "labels": piece}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    set_seed(0)
    config = GPT2Config(
        vocab_size=128, n_positions=128, n_embd=96, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=GPT2LMHeadModel(config),
            args=TrainingArguments(
                output_dir=folder,
                max_steps=args.steps,
                per_device_train_batch_size=args.batch_size,
                learning_rate=1e-3,
                logging_steps=20,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=Source(inspect.getsource(argparse), 128, args.steps * args.batch_size),
        )
        trainer.train()


if __name__ == "__main__":
    main()
