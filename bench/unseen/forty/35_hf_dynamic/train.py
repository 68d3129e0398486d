"""Small GPT-2 with the Hugging Face Trainer on sentences of unlike length."""
import random
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

PAD = 0


class Sentences(Dataset):
    def __init__(self, n=2000, vocab=900, seed=2):
        rnd = random.Random(seed)
        self.rows = []
        for _ in range(n):
            a, step = rnd.randrange(1, vocab), rnd.randrange(1, 9)
            length = rnd.randint(20, 44)
            self.rows.append(torch.tensor([(a + k * step) % (vocab - 1) + 1 for k in range(length)]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "length": len(self.rows[i])}


def pad_batch(items):
    rows = [it["input_ids"] for it in items]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(r) for r in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def main():
    set_seed(3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=900, n_positions=64, n_embd=160, n_layer=4, n_head=4,
                                       bos_token_id=1, eos_token_id=2))
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, per_device_train_batch_size=16, max_steps=400, learning_rate=5e-4, warmup_steps=20,
            logging_steps=50, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
            dataloader_pin_memory=False, remove_unused_columns=False, seed=3,
        )
        Trainer(model=model, args=args, train_dataset=Sentences(), data_collator=pad_batch).train()


if __name__ == "__main__":
    main()
