"""Fine-tune a compact BERT on news headline topics with the Hugging Face Trainer."""
import os
import random
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast,
                          Trainer, TrainingArguments, set_seed)

TOPICS = {
    "business": "market shares profit bank merger stocks quarterly revenue investors deal",
    "sports": "match season coach striker final league cup injury transfer defeat",
    "science": "study researchers climate species telescope vaccine genome planet lab data",
    "politics": "minister vote election parliament bill senate policy campaign treaty mayor",
}
FILLER = ("the a new after over in for with amid says as to on of from at by more first "
          "city year week report plan talks home world people late early big").split()
MAX_LENGTH = 128


def write_headlines(n, seed):
    rng = random.Random(seed)
    names = list(TOPICS)
    texts, labels = [], []
    for _ in range(n):
        y = rng.randrange(len(names))
        words = TOPICS[names[y]].split()
        length = rng.randint(14, 36)
        texts.append(" ".join(rng.choice(words) if rng.random() < 0.3 else rng.choice(FILLER)
                              for _ in range(length)))
        labels.append(y)
    return texts, labels


def build_tokenizer(texts):
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    for text in texts:
        for word in text.split():
            vocab.setdefault(word, len(vocab))
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
                                   cls_token="[CLS]", sep_token="[SEP]")


class HeadlineDataset(torch.utils.data.Dataset):
    def __init__(self, tokenizer, texts, labels):
        self.encodings = tokenizer(texts, truncation=True, padding="max_length",
                                   max_length=MAX_LENGTH)
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        item = {k: v[idx] for k, v in self.encodings.items() if k != "token_type_ids"}
        item["labels"] = self.labels[idx]
        return item


def compute_metrics(pred):
    return {"accuracy": float((np.argmax(pred.predictions, -1) == pred.label_ids).mean())}


def main():
    set_seed(42)
    train_texts, train_labels = write_headlines(2560, 1)
    test_texts, test_labels = write_headlines(128, 2)
    tokenizer = build_tokenizer(train_texts)
    train_ds = HeadlineDataset(tokenizer, train_texts, train_labels)
    test_ds = HeadlineDataset(tokenizer, test_texts, test_labels)

    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=512, max_position_embeddings=MAX_LENGTH, num_labels=len(TOPICS)))

    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            num_train_epochs=2,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            learning_rate=3e-4,
            warmup_steps=20,
            logging_steps=20,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=42,
        )
        trainer = Trainer(model=model, args=args, train_dataset=train_ds, eval_dataset=test_ds,
                          processing_class=tokenizer, compute_metrics=compute_metrics)
        trainer.train()
        print(trainer.evaluate(), flush=True)


if __name__ == "__main__":
    main()
