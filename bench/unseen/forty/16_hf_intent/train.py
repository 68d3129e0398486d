"""Intent classification with a small BERT from scratch and the Hugging Face Trainer."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Utterances(Dataset):
    def __init__(self, n, vocab=2000, length=48, intents=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, intents, (n,), generator=g)
        self.ids = torch.randint(100, vocab, (n, length), generator=g)
        marks = torch.rand(n, length, generator=g) < 0.15
        self.ids = torch.where(marks, 10 + self.labels[:, None].expand_as(self.ids), self.ids)
        self.ids[:, 0] = 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


def main():
    set_seed(1234)
    config = BertConfig(
        vocab_size=2000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=64, num_labels=12,
    )
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=16,
            max_steps=400,
            learning_rate=3e-4,
            warmup_steps=20,
            weight_decay=0.01,
            lr_scheduler_type="cosine",
            gradient_checkpointing=True,
            logging_steps=50,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=1234,
        )
        Trainer(model=model, args=args, train_dataset=Utterances(4000)).train()


if __name__ == "__main__":
    main()
