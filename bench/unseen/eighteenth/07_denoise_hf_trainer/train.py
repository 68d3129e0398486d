"""Denoising pre-training of a small encoder.

    python train.py [--config config.json] [trainer.max_steps=40 ...]
"""
import argparse
import json
import tempfile

from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments, set_seed

from callbacks import DivergenceGuard, ProgressLines
from collator import DenoisingCollator
from corpus import build_corpus
from metrics import keep_top1, restoration_scores


def load_config():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="config.json")
    ap.add_argument("overrides", nargs="*", help="section.key=value")
    ns = ap.parse_args()
    with open(ns.config) as fh:
        cfg = json.load(fh)
    for item in ns.overrides:
        dotted, value = item.split("=", 1)
        *path, leaf = dotted.split(".")
        node = cfg
        for part in path:
            node = node[part]
        node[leaf] = json.loads(value)
    return cfg


def main():
    cfg = load_config()
    set_seed(cfg["seed"])
    vocab, train_set, held_out = build_corpus(cfg["corpus"], cfg["seed"])
    print(f"{len(train_set)} documents, {len(vocab)} tokens in the vocabulary")
    model = BertForMaskedLM(BertConfig(vocab_size=len(vocab), pad_token_id=vocab.pad, **cfg["model"]))
    collate = DenoisingCollator(vocab, seed=cfg["seed"], **cfg["noise"])
    with tempfile.TemporaryDirectory() as scratch:
        args = TrainingArguments(
            output_dir=scratch,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            remove_unused_columns=False,
            lr_scheduler_type="cosine",
            seed=cfg["seed"],
            **cfg["trainer"],
        )
        trainer = Trainer(
            model=model,
            args=args,
            data_collator=collate,
            train_dataset=train_set,
            eval_dataset=held_out,
            compute_metrics=restoration_scores,
            preprocess_logits_for_metrics=keep_top1,
            callbacks=[ProgressLines(), DivergenceGuard()],
        )
        trainer.train()
        report = trainer.evaluate()
    print("held out:", {k: round(v, 4) for k, v in report.items() if k in ("eval_loss", "eval_restored")})


if __name__ == "__main__":
    main()
