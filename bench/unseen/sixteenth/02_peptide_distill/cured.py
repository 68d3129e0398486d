"""Distil a large peptide language model into a small one with the Hugging Face Trainer.

The student learns masked residues of short peptides, from the true residues and from the soft targets of
the teacher (a local checkpoint given by --teacher, else an untrained stand-in for dry runs).
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
PAD, CLS, SEP, MASK = 0, 1, 2, 3
VOCAB = {r: i + 4 for i, r in enumerate(RESIDUES)}


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--teacher", default=None)
    p.add_argument("--peptides", type=int, default=20000)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--steps", type=int, default=350)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--alpha", type=float, default=0.5)
    p.add_argument("--mask-prob", type=float, default=0.15)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--out", default="runs_peptide")
    return p.parse_args()


class PeptideSet(Dataset):
    """Amphipathic peptides: hydrophobic and charged residues take turns with the helix period."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        hydrophobic = np.array([VOCAB[r] for r in "AILMFVWY"])
        polar = np.array([VOCAB[r] for r in "DEKRNQSTGHPC"])
        self.items = []
        for _ in range(n):
            length = int(rng.integers(28, 46))
            face = np.cos(2 * np.pi * np.arange(length) / 3.6 + rng.uniform(0, 6.28)) > 0
            seq = np.where(face, rng.choice(hydrophobic, length), rng.choice(polar, length))
            self.items.append(np.concatenate(([CLS], seq, [SEP])).astype(np.int64))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return {"ids": self.items[i]}


class MaskingCollator:
    """Pads to the longest peptide of the batch and masks residues, BERT style without the 10 % noise."""

    def __init__(self, mask_prob, seed):
        self.mask_prob = mask_prob
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self, items):
        longest = max(len(it["ids"]) for it in items)
        ids = torch.full((len(items), longest), PAD, dtype=torch.long)
        for row, it in enumerate(items):
            ids[row, :len(it["ids"])] = torch.from_numpy(it["ids"])
        chosen = (torch.rand(ids.shape, generator=self.gen) < self.mask_prob) & (ids > MASK)
        labels = ids.masked_fill(~chosen, -100)
        return {"input_ids": ids.masked_fill(chosen, MASK), "attention_mask": (ids != PAD).long(),
                "labels": labels}


def build_student(vocab_size):
    return BertForMaskedLM(BertConfig(
        vocab_size=vocab_size, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=384, max_position_embeddings=64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))


def load_teacher(path, vocab_size):
    if path is not None:
        teacher = BertForMaskedLM.from_pretrained(path)
    else:
        teacher = BertForMaskedLM(BertConfig(
            vocab_size=vocab_size, hidden_size=192, num_hidden_layers=4, num_attention_heads=6,
            intermediate_size=576, max_position_embeddings=64))
    return teacher.eval()


class DistilTrainer(Trainer):
    def __init__(self, *args, teacher, temperature, alpha, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.to(self.args.device)
        self.temperature = temperature
        self.alpha = alpha
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        with torch.no_grad():
            teacher_logits = self.teacher(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
        chosen = inputs["labels"] != -100
        t = self.temperature
        soft = F.kl_div(
            F.log_softmax(outputs.logits[chosen] / t, dim=-1),
            F.softmax(teacher_logits[chosen] / t, dim=-1), reduction="batchmean") * t * t
        loss = self.alpha * outputs.loss + (1.0 - self.alpha) * soft
        return (loss, outputs) if return_outputs else loss


class HistoryWriter(TrainerCallback):
    def __init__(self, path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **kwargs):
        with open(self.path, "a") as f:
            f.write(json.dumps({"step": state.global_step, **(logs or {})}) + "\n")


def masked_accuracy(pred):
    labels = pred.label_ids
    hit = pred.predictions == labels
    return {"masked_accuracy": float(hit[labels != -100].mean())}


def main():
    args = parse_args()
    set_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    vocab_size = len(VOCAB) + 4
    teacher = load_teacher(args.teacher, vocab_size)
    student = build_student(vocab_size)
    n_val = 192
    train_set, val_set = PeptideSet(args.peptides, args.seed), PeptideSet(n_val, args.seed + 1)

    targs = TrainingArguments(
        output_dir=args.out, max_steps=args.steps, per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=64, learning_rate=args.lr, lr_scheduler_type="cosine", warmup_steps=30,
        weight_decay=0.01, logging_steps=25, eval_strategy="steps", eval_steps=200, save_strategy="steps",
        save_steps=200, save_total_limit=1, report_to=[], disable_tqdm=True, seed=args.seed, use_cpu=True,
        remove_unused_columns=False, dataloader_num_workers=0, dataloader_pin_memory=False)
    trainer = DistilTrainer(
        model=student, args=targs, train_dataset=train_set, eval_dataset=val_set,
        data_collator=MaskingCollator(args.mask_prob, args.seed), compute_metrics=masked_accuracy,
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
        callbacks=[HistoryWriter(os.path.join(args.out, "history.jsonl"))],
        teacher=teacher, temperature=args.temperature, alpha=args.alpha)
    trainer.train()
    print(trainer.evaluate())
    student.save_pretrained(os.path.join(args.out, "student"))


if __name__ == "__main__":
    main()
