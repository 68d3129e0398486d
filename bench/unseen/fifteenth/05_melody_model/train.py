"""Train a small decoder on symbolic folk melodies (pitch and duration tokens) with the Hugging Face Trainer."""
import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

BOS, BAR = 0, 1
PITCHES = list(range(48, 85))
DURATIONS = [1, 2, 3, 4, 6, 8]
PITCH_BASE = 2
DURATION_BASE = PITCH_BASE + len(PITCHES)
KEY_BASE = DURATION_BASE + len(DURATIONS)
VOCABULARY = KEY_BASE + 24
SCALES = {"major": [0, 2, 4, 5, 7, 9, 11], "minor": [0, 2, 3, 5, 7, 8, 10]}
RHYTHMS = [[4, 4, 4, 4], [8, 4, 4], [2, 2, 4, 4, 4], [6, 2, 4, 4], [3, 1, 4, 8], [4, 2, 2, 8]]


def compose(rng, length):
    """Random walk on a scale with recurring rhythm patterns and repeated phrases."""
    tonic, mode = int(rng.integers(12)), int(rng.integers(2))
    scale = SCALES["minor" if mode else "major"]
    pool = [p for p in PITCHES if (p - tonic) % 12 in scale]
    tokens = [BOS, KEY_BASE + 2 * tonic + mode]
    patterns = rng.choice(len(RHYTHMS), 2, replace=False)
    position, bars = len(pool) // 2, []
    while len(tokens) < length:
        if len(bars) >= 4 and rng.random() < 0.35:
            bar = bars[-4]
        else:
            bar = []
            for duration in RHYTHMS[patterns[rng.integers(2)]]:
                step = int(rng.choice([-3, -2, -1, 0, 1, 2, 3], p=[0.05, 0.12, 0.28, 0.1, 0.28, 0.12, 0.05]))
                position = min(max(position + step, 0), len(pool) - 1)
                bar += [PITCH_BASE + pool[position] - PITCHES[0], DURATION_BASE + DURATIONS.index(duration)]
        bars.append(bar)
        tokens += [BAR, *bar]
    return tokens[:length]


class MelodyDataset(Dataset):
    def __init__(self, count, length, seed):
        rng = np.random.default_rng(seed)
        self.tokens = torch.tensor([compose(rng, length) for _ in range(count)])

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index]


class MelodyCollator:
    def __call__(self, samples):
        tokens = torch.stack(samples)
        return {"input_ids": tokens, "labels": tokens}


def compute_metrics(prediction):
    hits, labels = prediction.predictions, prediction.label_ids
    guessed, target = hits[:, :-1], labels[:, 1:]
    is_pitch = (target >= PITCH_BASE) & (target < DURATION_BASE)
    return {"accuracy": float((guessed == target).mean()),
            "pitch_accuracy": float((guessed == target)[is_pitch].mean())}


def keep_argmax(logits, labels):
    return logits.argmax(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--melodies", type=int, default=1600)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-steps", type=int, default=250)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "melody_model")
    args = parser.parse_args()
    set_seed(8)

    train_set = MelodyDataset(args.melodies, args.length, seed=1)
    val_set = MelodyDataset(64, args.length, seed=2)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=args.length, n_embd=128, n_layer=4, n_head=4,
        activation_function="gelu_pytorch_tanh", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BOS, eos_token_id=BOS, use_cache=False)
    model = GPT2LMHeadModel(config)
    print(f"{model.num_parameters() / 1e6:.2f}M parameters, {len(train_set)} melodies")

    arguments = TrainingArguments(
        output_dir=str(args.out),
        max_steps=args.max_steps,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=32,
        learning_rate=args.lr,
        warmup_steps=25,
        lr_scheduler_type="cosine",
        weight_decay=0.05,
        optim="adamw_torch_fused",
        logging_steps=25,
        eval_strategy="steps",
        eval_steps=125,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=True,
    )
    trainer = Trainer(
        model=model, args=arguments, train_dataset=train_set, eval_dataset=val_set, data_collator=MelodyCollator(),
        compute_metrics=compute_metrics, preprocess_logits_for_metrics=keep_argmax)
    trainer.train()
    result = trainer.evaluate()
    print(f"perplexity {math.exp(result['eval_loss']):.3f} pitch accuracy {result['eval_pitch_accuracy']:.3f}")
    trainer.save_model(str(args.out / "final"))


if __name__ == "__main__":
    main()
