"""Split postal addresses into their parts: token classification with the HF Trainer."""
import argparse
import json
import os
import random
import tempfile

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (BertConfig, BertForTokenClassification, PreTrainedTokenizerFast, Trainer,
                          TrainerCallback, TrainingArguments, default_data_collator, set_seed)

LABELS = ["O", "NAME", "STREET", "NUMBER", "UNIT", "CITY", "STATE", "ZIP", "COUNTRY"]
LABEL_ID = {name: i for i, name in enumerate(LABELS)}
MAX_LENGTH = 96


def make_addresses(n, seed=0):
    rng = random.Random(seed)
    syllables = [a + b for a in "b c d f g h k l m n p r s t v w".split() for b in "a e i o u an er il on".split()]

    def words(count, ending):
        return ["".join(rng.choice(syllables) for _ in range(rng.randint(2, 3))) + ending for _ in range(count)]

    people, streets, cities = words(4000, ""), words(4000, "ham"), words(3000, "ton")
    kinds = ["street", "road", "lane", "avenue", "square", "way"]
    states = ["".join(rng.choice("abcdefghijklmnop") for _ in range(2)) for _ in range(50)]
    countries = ["usa", "canada", "ireland", "united kingdom", "australia"]
    rows = []
    for _ in range(n):
        parts = []
        if rng.random() < 0.6:
            parts += [(rng.choice(people), "NAME") for _ in range(rng.randint(1, 3))] + [(",", "O")]
        number = [(str(rng.randint(1, 400)), "NUMBER")]
        street = [(rng.choice(streets), "STREET") for _ in range(rng.randint(1, 2))] + [(rng.choice(kinds), "STREET")]
        parts += number + street if rng.random() < 0.7 else street + number
        if rng.random() < 0.4:
            parts += [(",", "O"), (rng.choice(["unit", "apt", "floor"]), "UNIT"), (str(rng.randint(1, 60)), "UNIT")]
        parts += [(",", "O")] + [(rng.choice(cities), "CITY") for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.7:
            parts += [(rng.choice(states), "STATE")]
        parts += [(str(rng.randint(10000, 14000)), "ZIP")]
        if rng.random() < 0.5:
            parts += [(w, "COUNTRY") for w in rng.choice(countries).split()]
        rows.append(([w for w, _ in parts], [LABEL_ID[t] for _, t in parts]))
    return rows


def make_tokenizer(rows):
    vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])}
    for words, _ in rows:
        for w in words:
            vocab.setdefault(w, len(vocab))
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
                                   cls_token="[CLS]", sep_token="[SEP]", model_max_length=MAX_LENGTH)


def encode(rows, tokenizer):
    """Token ids, mask and one label per token (-100 where nothing is to be learnt)."""
    enc = tokenizer([words for words, _ in rows], is_split_into_words=True, truncation=True,
                    padding="max_length", max_length=MAX_LENGTH)
    data = []
    for i, (_, tags) in enumerate(rows):
        ids = enc["input_ids"][i]
        labels = (tags + [-100] * len(ids))[:len(ids)]
        data.append({"input_ids": ids, "attention_mask": enc["attention_mask"][i], "labels": labels})
    return data


class WeightReport(TrainerCallback):
    """Keeps the spread of each layer's weights, to see later which ones moved."""

    def __init__(self, path):
        self.out = open(path, "w")

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % 50:
            return
        row = {"step": state.global_step}
        for name, p in model.named_parameters():
            values = p.detach().numpy()
            low, mid, high = np.percentile(values, [5, 50, 95])
            row[name] = [float(low), float(mid), float(high), float(values.std())]
        self.out.write(json.dumps(row) + "\n")

    def on_train_end(self, args, state, control, **kwargs):
        self.out.close()


class Progress(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step:4d}  loss {float(logs['loss']):.4f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=360)
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--addresses", type=int, default=12_000)
    args = ap.parse_args()
    set_seed(0)

    rows = make_addresses(args.addresses)
    tokenizer = make_tokenizer(rows)
    data = encode(rows, tokenizer)
    model = BertForTokenClassification(BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=384, max_position_embeddings=MAX_LENGTH, num_labels=len(LABELS),
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))

    folder = tempfile.mkdtemp(prefix="addresses_")
    settings = TrainingArguments(
        output_dir=folder,
        max_steps=args.steps,
        per_device_train_batch_size=args.batch,
        learning_rate=5e-4,
        warmup_steps=30,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=model,
        args=settings,
        train_dataset=data,
        data_collator=default_data_collator,
        callbacks=[Progress(), WeightReport(os.path.join(folder, "weights.jsonl"))],
    )
    result = trainer.train()
    print(f"done: {result.global_step} steps in {result.metrics['train_runtime']:.1f} s, "
          f"loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
