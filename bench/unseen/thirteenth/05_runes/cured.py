"""Normalise runic inscriptions: from a letter by letter transliteration to normalised Old Norse.

A small T5, trained from scratch at the level of characters with the Seq2SeqTrainer.
Exact match and character error rate are taken on generated text.
"""
import argparse
import logging
import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)

log = logging.getLogger("runes")

NAMES = "asbjorn gunnarr ulfr thorsteinn ragnfridr sigridr hrolfr ketill eirikr inga tola bjorn sveinn holmgeirr".split()
KIN = ["fodur sinn", "brodur sinn", "son sinn", "modur sina", "felaga sinn", "bonda sinn"]
PRAISE = ["godan dreng", "er dreng hardla godan", "er do i englandi", "er austr vard daudr", "er hann for i viking"]
VERBS = ["reisti stein thenna eptir", "let rista runar at", "let gera bru fyr", "hjo stein ok merki eptir"]
YOUNGER = {"e": "i", "o": "u", "d": "t", "g": "k", "p": "b", "y": "u", "v": "u", "j": "i", "thth": "th"}


def normalised(rng):
    text = f"{rng.choice(NAMES)} ok {rng.choice(NAMES)} {rng.choice(VERBS)} {rng.choice(NAMES)} {rng.choice(KIN)} {rng.choice(PRAISE)}"
    return text if rng.random() < 0.5 else text + " gud hjalpi and hans"


def carved(text, rng):
    out = "".join(YOUNGER.get(c, c) for c in text)
    out = out.replace(" ", rng.choice([":", "", " "]) if rng.random() < 0.7 else ":")
    return "".join("-" if rng.random() < 0.03 else c for c in out)


class CharVocab:
    """The few methods of a tokenizer that the collator needs."""

    padding_side = "right"
    pad_token_id, eos_token_id = 0, 1

    def __init__(self):
        self.chars = "abcdefghijklmnopqrstuvwxyz :-"
        self.ids = {c: i + 2 for i, c in enumerate(self.chars)}

    def __len__(self):
        return len(self.chars) + 2

    def encode(self, text):
        return [self.ids[c] for c in text] + [self.eos_token_id]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == self.eos_token_id:
                break
            if i > 1:
                out.append(self.chars[i - 2])
        return "".join(out)

    def pad(self, features, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors="pt"):
        width = max(len(f["input_ids"]) for f in features)
        batch = {"input_ids": [], "attention_mask": []}
        for f in features:
            n = len(f["input_ids"])
            batch["input_ids"].append(list(f["input_ids"]) + [self.pad_token_id] * (width - n))
            batch["attention_mask"].append([1] * n + [0] * (width - n))
        batch = {k: torch.tensor(v) for k, v in batch.items()}
        if "labels" in features[0]:
            batch["labels"] = torch.tensor(np.array([f["labels"] for f in features]))
        return batch


class Inscriptions(Dataset):
    def __init__(self, n, vocab, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            text = normalised(rng)
            self.rows.append({"input_ids": vocab.encode(carved(text, rng)), "labels": vocab.encode(text)})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return dict(self.rows[i])


def edit_distance(a, b):
    prev = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        cur = [i]
        for j, y in enumerate(b, 1):
            cur.append(min(prev[j] + 1, cur[-1] + 1, prev[j - 1] + (x != y)))
        prev = cur
    return prev[-1]


def build_model(vocab, args):
    config = T5Config(
        vocab_size=len(vocab), d_model=args.width, d_kv=args.width // 4, num_heads=4, d_ff=4 * args.width,
        num_layers=2, num_decoder_layers=2, dropout_rate=0.1,
        pad_token_id=vocab.pad_token_id, eos_token_id=vocab.eos_token_id, decoder_start_token_id=vocab.pad_token_id,
    )
    model = T5ForConditionalGeneration(config)
    model.generation_config.update(max_length=args.max_len, num_beams=1)
    return model


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--max-len", type=int, default=112)
    p.add_argument("--eval-every", type=int, default=80)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    set_seed(4)

    vocab = CharVocab()
    train_set, val_set = Inscriptions(8000, vocab, 0), Inscriptions(128, vocab, 1)
    model = build_model(vocab, args)
    log.info("%d parameters, %d inscriptions", model.num_parameters(), len(train_set))

    def metrics(pred):
        labels = np.where(pred.label_ids < 0, vocab.pad_token_id, pred.label_ids)
        hyp = [vocab.decode(r) for r in pred.predictions]
        ref = [vocab.decode(r) for r in labels]
        errors = sum(edit_distance(h, r) for h, r in zip(hyp[:32], ref[:32]))
        return {"cer": errors / sum(map(len, ref[:32])), "exact": float(np.mean([h == r for h, r in zip(hyp, ref)]))}

    with tempfile.TemporaryDirectory() as out:
        targs = Seq2SeqTrainingArguments(
            output_dir=out, max_steps=args.steps, per_device_train_batch_size=args.batch, per_device_eval_batch_size=128,
            learning_rate=2e-3, lr_scheduler_type="cosine", warmup_steps=30, weight_decay=0.01,
            eval_strategy="steps", eval_steps=args.eval_every, predict_with_generate=True, generation_max_length=args.max_len,
            logging_steps=20, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
        )
        trainer = Seq2SeqTrainer(
            model=model, args=targs, train_dataset=train_set, eval_dataset=val_set,
            data_collator=DataCollatorForSeq2Seq(vocab, model=model), compute_metrics=metrics,
        )
        trainer.train()
        model.save_pretrained(out)


if __name__ == "__main__":
    main()
