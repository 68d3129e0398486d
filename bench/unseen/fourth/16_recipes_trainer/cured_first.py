"""Cuisine classification of recipe comments with a small BERT (from scratch, HF Trainer)."""
import os
import random
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

CUISINES = ["italian", "japanese", "mexican", "indian", "greek", "thai"]
MAX_LENGTH = 128
SYLLABLES = "ba co di fe gu ha jo ki lo mu na po qui ra su ta ve wo xi za".split()
WORDS = [a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES[:16]]
FILLER = "not is will and going to with so yum we it".split()


def make_comments(n, seed):
    """Pseudo words, every cuisine has its favourites, plus some filler."""
    rng = random.Random(seed)
    favourites = [WORDS[300 * c:300 * c + 500] for c in range(len(CUISINES))]
    texts, labels = [], []
    for _ in range(n):
        c = rng.randrange(len(CUISINES))
        toks = []
        for _ in range(min(max(int(rng.gauss(50, 14)), 12), 115)):
            r = rng.random()
            toks.append(rng.choice(FILLER if r < 0.1 else favourites[c] if r < 0.35 else WORDS))
        texts.append(" ".join(toks))
        labels.append(c)
    return texts, labels


def build_tokenizer():
    vocab = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + WORDS + FILLER)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


class CommentDataset(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.encodings = tokenizer(
            texts,
            truncation=True,
            max_length=MAX_LENGTH,
            return_token_type_ids=False,
        )
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        item = {k: v[i] for k, v in self.encodings.items()}
        item["labels"] = self.labels[i]
        return item


class HistogramCallback(TrainerCallback):
    """Keeps histograms and percentiles of weights and gradients, to look at them after the run."""

    def __init__(self, bins=64):
        self.bins = bins
        self.records = []

    def histogram(self, tensor):
        values = tensor.detach().float().numpy().ravel()
        counts, edges = np.histogram(values, bins=self.bins)
        return counts.astype(np.int32), edges[[0, -1]], np.percentile(values, [1, 50, 99])

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        record = {}
        for name, p in model.named_parameters():
            record["weights/" + name] = self.histogram(p)
            if p.grad is not None:
                record["gradients/" + name] = self.histogram(p.grad)
        self.records.append((state.global_step, record))


def compute_metrics(pred):
    guess = pred.predictions.argmax(-1)
    recall = [float((guess[pred.label_ids == c] == c).mean()) for c in range(len(CUISINES))]
    return {"accuracy": float((guess == pred.label_ids).mean()), "balanced": float(np.mean(recall))}


def main():
    set_seed(21)
    tokenizer = build_tokenizer()
    train_set = CommentDataset(*make_comments(2600, seed=1), tokenizer)
    eval_set = CommentDataset(*make_comments(200, seed=2), tokenizer)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=MAX_LENGTH,
            num_labels=len(CUISINES),
        )
    )
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            num_train_epochs=3,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=50,
            learning_rate=1e-3,
            warmup_steps=20,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            logging_steps=50,
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        histograms = HistogramCallback()
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=train_set,
            eval_dataset=eval_set,
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=compute_metrics,
            callbacks=[histograms],
        )
        start = time.time()
        result = trainer.train()
        rate = result.global_step / (time.time() - start)
        print(f"{result.global_step} steps, {rate:.2f} steps/s, loss {result.training_loss:.4f}")
        last_step, last = histograms.records[-1]
        print(f"{len(histograms.records)} histogram records, last at step {last_step} with {len(last)} tensors")


if __name__ == "__main__":
    main()
