"""Distil a large cold-chain remark grader into a small one for hand-held inspection devices.

The remarks are short structured lines written by warehouse inspectors; the grade (A..D)
is what the laboratory found a week later.
"""
import argparse
import json
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

GRADES = ["A", "B", "C", "D"]
PRODUCE = "spinach strawberries salmon yoghurt minced_beef lettuce shrimp cream raspberries chicken".split()
STATES = "firm soft bruised slimy pale discoloured dry wet frosted clean".split()
PLACES = "dock bay trailer pallet shelf corner cooler gate ramp cage".split()
FILLER = "seen near after before unit checked again by crew on arrival door seal probe reading noted box lot".split()
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]


class WordTokenizer:
    def __init__(self):
        temps = [f"{t}C" for t in range(-4, 16)]
        words = SPECIAL + PRODUCE + STATES + PLACES + FILLER + temps
        self.index = {w: i for i, w in enumerate(words)}

    def __len__(self):
        return len(self.index)

    def encode(self, text):
        ids = [self.index.get(w, 3) for w in text.split()]
        return [1] + ids + [2]


def write_remarks(path, n, seed):
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(n):
            temp = rng.randint(-4, 15)
            states = [rng.randrange(len(STATES)) for _ in range(3)]
            words = [rng.choice(PRODUCE), f"{temp}C"] + [STATES[s] for s in states]
            words += [rng.choice(PLACES) for _ in range(4)]
            words += [rng.choice(FILLER) for _ in range(rng.randint(24, 36))]
            rng.shuffle(words)
            score = max(temp, 0) / 5 + sum(s in (1, 2, 3, 5) for s in states) + rng.gauss(0, 0.3)
            grade = int(np.clip(score / 1.3, 0, 3))
            f.write(json.dumps({"text": " ".join(words), "label": grade}) + "\n")


class RemarkDataset(Dataset):
    def __init__(self, path, tokenizer):
        self.rows = []
        with open(path) as f:
            for line in f:
                row = json.loads(line)
                self.rows.append((tokenizer.encode(row["text"]), row["label"]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, label = self.rows[i]
        return {"input_ids": ids, "label": label}


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for k, r in enumerate(rows):
        n = len(r["input_ids"])
        ids[k, :n] = torch.tensor(r["input_ids"])
        mask[k, :n] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([r["label"] for r in rows])}


def bert(vocab, hidden, layers, heads):
    config = BertConfig(
        vocab_size=vocab, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=hidden * 4, max_position_embeddings=64, num_labels=len(GRADES),
    )
    return BertForSequenceClassification(config)


def prepare_teacher(folder, dataset, vocab, steps):
    """Stands in for the fine-tuned grader that usually comes from the model registry."""
    teacher = bert(vocab, hidden=192, layers=4, heads=6)
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=3e-4)
    order = np.random.default_rng(5).permutation(len(dataset))
    for s in range(steps):
        batch = collate([dataset[int(i)] for i in order[s * 32:(s + 1) * 32]])
        loss = teacher(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    teacher.save_pretrained(folder)


class DistillTrainer(Trainer):
    def __init__(self, *args, teacher=None, temperature=2.0, alpha=0.5, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.eval()
        self.temperature = temperature
        self.alpha = alpha

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        reference = self.teacher(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        t = self.temperature
        soft = F.kl_div(
            F.log_softmax(outputs.logits / t, dim=-1),
            F.softmax(reference.logits / t, dim=-1),
            reduction="batchmean",
        ) * t * t
        loss = self.alpha * outputs.loss + (1 - self.alpha) * soft
        return (loss, outputs) if return_outputs else loss


class JsonlLog(TrainerCallback):
    def __init__(self, path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **kwargs):
        with open(self.path, "a") as f:
            f.write(json.dumps({"step": state.global_step, **(logs or {})}) + "\n")


def grade_metrics(prediction):
    guess = prediction.predictions.argmax(-1)
    truth = prediction.label_ids
    return {"accuracy": float((guess == truth).mean()), "off_by_more": float((abs(guess - truth) > 1).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=450)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--alpha", type=float, default=0.4)
    parser.add_argument("--teacher-steps", type=int, default=20)
    args = parser.parse_args()
    set_seed(11)

    with tempfile.TemporaryDirectory() as work:
        write_remarks(f"{work}/train.jsonl", 6000, seed=1)
        write_remarks(f"{work}/valid.jsonl", 320, seed=2)
        tokenizer = WordTokenizer()
        train_set = RemarkDataset(f"{work}/train.jsonl", tokenizer)
        valid_set = RemarkDataset(f"{work}/valid.jsonl", tokenizer)

        prepare_teacher(f"{work}/teacher", train_set, len(tokenizer), args.teacher_steps)
        teacher = BertForSequenceClassification.from_pretrained(f"{work}/teacher")
        student = bert(len(tokenizer), hidden=128, layers=2, heads=4)

        training_args = TrainingArguments(
            output_dir=f"{work}/student", max_steps=args.max_steps, learning_rate=args.lr,
            per_device_train_batch_size=args.batch_size, per_device_eval_batch_size=64,
            lr_scheduler_type="cosine", warmup_steps=30, weight_decay=0.01,
            eval_strategy="steps", eval_steps=150, save_strategy="steps", save_steps=225, save_total_limit=1,
            logging_steps=25, report_to="none", use_cpu=True, remove_unused_columns=False,
            dataloader_num_workers=0, disable_tqdm=True, seed=11,
        )
        trainer = DistillTrainer(
            model=student, args=training_args, train_dataset=train_set, eval_dataset=valid_set,
            data_collator=collate, compute_metrics=grade_metrics, teacher=teacher,
            temperature=args.temperature, alpha=args.alpha, callbacks=[JsonlLog(f"{work}/log.jsonl")],
        )
        result = trainer.train()
        print("train loss", round(result.training_loss, 4), "seconds", round(result.metrics["train_runtime"], 1))
        final = trainer.evaluate()
        print({k: round(v, 4) for k, v in final.items()})
        trainer.save_model(os.path.join(work, "final"))


if __name__ == "__main__":
    main()
