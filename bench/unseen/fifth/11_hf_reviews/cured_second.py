"""Sentiment of short product reviews with the Hugging Face Trainer (tiny model, from scratch)."""
import random
import tempfile

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.trainers import WordLevelTrainer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

GOOD = "great lovely solid excellent happy perfect sturdy bright recommend fast".split()
BAD = "poor broken cheap awful returned noisy late flimsy useless dull".split()
MAX_LENGTH = 64


def make_reviews(n, seed):
    rnd = random.Random(seed)
    filler = [f"{p}{a}{b}{c}" for p in ("", "re", "un", "be", "over", "sub", "non", "pre") for a in "bdfgklmnprst"
              for b in ("a", "e", "i", "o", "u", "ai", "ou", "ea")
              for c in ("n", "r", "st", "ll", "t", "nd", "m", "ck", "ve", "p")]
    texts, labels = [], []
    for _ in range(n):
        y = rnd.randint(0, 1)
        words = rnd.choices(filler, k=rnd.randint(6, 26))
        for w in rnd.sample(GOOD if y else BAD, 2) + rnd.sample(BAD if y else GOOD, 1):
            words.insert(rnd.randrange(len(words)), w)
        texts.append(" ".join(words))
        labels.append(y)
    return texts, labels


def build_tokenizer(texts):
    tok = Tokenizer(WordLevel(unk_token="[UNK]"))
    tok.pre_tokenizer = Whitespace()
    tok.train_from_iterator(texts, WordLevelTrainer(special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
                                   cls_token="[CLS]", sep_token="[SEP]")


class Reviews(torch.utils.data.Dataset):
    def __init__(self, texts, labels, tokenizer):
        enc = tokenizer(texts, truncation=True, padding="max_length", max_length=MAX_LENGTH,
                        return_token_type_ids=False)
        self.rows = [{"input_ids": ids, "attention_mask": mask, "labels": y}
                     for ids, mask, y in zip(enc["input_ids"], enc["attention_mask"], labels)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def accuracy(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def main():
    set_seed(42)
    train_texts, train_labels = make_reviews(2400, seed=1)
    val_texts, val_labels = make_reviews(320, seed=2)
    tokenizer = build_tokenizer(train_texts)
    train_set = Reviews(train_texts, train_labels, tokenizer)
    val_set = Reviews(val_texts, val_labels, tokenizer)
    print(f"vocabulary {len(tokenizer)}, mean length "
          f"{np.mean([sum(r['attention_mask']) for r in train_set.rows]):.1f} tokens")

    config = BertConfig(vocab_size=len(tokenizer), hidden_size=192, num_hidden_layers=2,
                        num_attention_heads=4, intermediate_size=384, max_position_embeddings=MAX_LENGTH,
                        num_labels=2)
    model = BertForSequenceClassification(config)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="reviews_"),
        num_train_epochs=1,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=64,
        learning_rate=5e-4,
        lr_scheduler_type="linear",
        warmup_steps=20,
        weight_decay=0.01,
        logging_steps=20,
        save_strategy="steps",
        save_steps=200,
        save_total_limit=2,
        eval_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=train_set,
        eval_dataset=val_set,
        data_collator=default_data_collator,
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    result = trainer.train()
    print({k: round(v, 3) for k, v in result.metrics.items()})
    print({k: round(v, 3) for k, v in trainer.evaluate().items()})


if __name__ == "__main__":
    main()
