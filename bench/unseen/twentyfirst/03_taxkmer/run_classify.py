#!/usr/bin/env python
"""Taxonomic classification of short reads with a small BERT trained from scratch."""
import logging
import os
import time
from dataclasses import dataclass, field

import numpy as np
from sklearn.metrics import accuracy_score, f1_score
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from collator import ReadCollator
from kmer_tokenizer import KmerTokenizer
from reads import ReadDataset, make_genomes

logger = logging.getLogger(__name__)


@dataclass
class ReadArguments:
    n_taxa: int = field(default=16)
    genome_length: int = field(default=30_000)
    train_reads: int = field(default=8_000)
    eval_reads: int = field(default=256)
    min_read_length: int = field(default=100)
    max_read_length: int = field(default=150)
    error_rate: float = field(default=0.01)


@dataclass
class ModelArguments:
    k: int = field(default=6, metadata={"help": "k-mer size"})
    stride: int = field(default=1)
    hidden_size: int = field(default=96)
    num_layers: int = field(default=2)
    num_heads: int = field(default=4)
    dropout: float = field(default=0.1)


@dataclass
class RunArguments:
    run_name: str = field(default="taxkmer")
    max_steps: int = field(default=160)
    batch_size: int = field(default=32)
    learning_rate: float = field(default=1e-3)
    eval_steps: int = field(default=80)
    logging_steps: int = field(default=20)
    seed: int = field(default=2024)


class ReadsPerSecond(TrainerCallback):
    def __init__(self, batch_size):
        self.batch_size = batch_size

    def on_train_begin(self, args, state, control, **kwargs):
        self.t0 = time.perf_counter()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs is not None and "loss" in logs:
            rate = state.global_step * self.batch_size / (time.perf_counter() - self.t0)
            logger.info("step %d  loss %s  %.0f reads/s", state.global_step, logs["loss"], rate)


def compute_metrics(pred):
    guess = np.argmax(pred.predictions, axis=-1)
    return {
        "accuracy": accuracy_score(pred.label_ids, guess),
        "macro_f1": f1_score(pred.label_ids, guess, average="macro"),
    }


def main():
    parser = HfArgumentParser((ReadArguments, ModelArguments, RunArguments))
    read_args, model_args, run_args = parser.parse_args_into_dataclasses()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    set_seed(run_args.seed)

    genomes = make_genomes(read_args.n_taxa, read_args.genome_length, run_args.seed)
    reads = dict(min_len=read_args.min_read_length, max_len=read_args.max_read_length,
                 error_rate=read_args.error_rate)
    train_set = ReadDataset(genomes, read_args.train_reads, seed=run_args.seed + 1, **reads)
    eval_set = ReadDataset(genomes, read_args.eval_reads, seed=run_args.seed + 2, **reads)

    tokenizer = KmerTokenizer(model_args.k, model_args.stride)
    max_length = tokenizer.max_tokens(read_args.max_read_length)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=model_args.hidden_size,
        num_hidden_layers=model_args.num_layers,
        num_attention_heads=model_args.num_heads,
        intermediate_size=4 * model_args.hidden_size,
        max_position_embeddings=max_length,
        hidden_dropout_prob=model_args.dropout,
        attention_probs_dropout_prob=model_args.dropout,
        num_labels=read_args.n_taxa,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = BertForSequenceClassification(config)
    logger.info("vocabulary %d, %.2fM parameters", tokenizer.vocab_size, model.num_parameters() / 1e6)

    training_args = TrainingArguments(
        output_dir=os.path.join("runs", run_args.run_name),
        max_steps=run_args.max_steps,
        per_device_train_batch_size=run_args.batch_size,
        per_device_eval_batch_size=64,
        learning_rate=run_args.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        weight_decay=0.01,
        eval_strategy="steps",
        eval_steps=run_args.eval_steps,
        logging_steps=run_args.logging_steps,
        save_strategy="no",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to="none",
        disable_tqdm=True,
        seed=run_args.seed,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_set,
        eval_dataset=eval_set,
        data_collator=ReadCollator(tokenizer, max_length),
        compute_metrics=compute_metrics,
        callbacks=[ReadsPerSecond(run_args.batch_size)],
    )
    trainer.train()
    metrics = trainer.evaluate()
    logger.info("final accuracy %.3f macro F1 %.3f", metrics["eval_accuracy"], metrics["eval_macro_f1"])
    trainer.save_model(os.path.join("runs", run_args.run_name, "final"))


if __name__ == "__main__":
    main()
