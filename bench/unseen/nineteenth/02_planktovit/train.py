from __future__ import annotations

import argparse
import logging
import tempfile

import torch
from transformers import TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

from averaging import WeightAverage
from pipeline import SpecimenCollator, SpecimenDataset
from scores import taxon_scores
from specimens import TAXA, collect
from trainer import TaxonTrainer, class_weights

log = logging.getLogger("planktovit")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=330)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=56)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--n-train", type=int, default=4096)
    parser.add_argument("--n-eval", type=int, default=256)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=5)
    return parser.parse_args()


def build_model(args: argparse.Namespace) -> ViTForImageClassification:
    config = ViTConfig(
        image_size=args.image_size,
        patch_size=7,
        num_channels=1,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 48,
        intermediate_size=4 * args.width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=len(TAXA),
        id2label=dict(enumerate(TAXA)),
        label2id={name: i for i, name in enumerate(TAXA)},
        attn_implementation="sdpa",
    )
    return ViTForImageClassification(config)


def main() -> None:
    args = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    set_seed(args.seed)
    train_set = collect(args.n_train, args.image_size, args.seed)
    eval_set = collect(args.n_eval, args.image_size, args.seed + 1)
    model = build_model(args)
    log.info("%d parameters", sum(p.numel() for p in model.parameters()))

    with tempfile.TemporaryDirectory() as output_dir:
        training_args = TrainingArguments(
            output_dir=output_dir,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=128,
            learning_rate=args.lr,
            weight_decay=0.05,
            warmup_steps=20,
            lr_scheduler_type="cosine",
            max_grad_norm=1.0,
            logging_steps=10,
            eval_strategy="steps",
            eval_steps=165,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_drop_last=True,
            dataloader_pin_memory=False,
            use_cpu=True,
            bf16=True,
            seed=args.seed,
        )
        trainer = TaxonTrainer(
            model=model,
            args=training_args,
            train_dataset=SpecimenDataset(train_set),
            eval_dataset=SpecimenDataset(eval_set),
            data_collator=SpecimenCollator(augment=True, seed=args.seed),
            compute_metrics=taxon_scores,
            average=WeightAverage(model),
            weights=class_weights(train_set.taxon, len(TAXA)),
        )
        trainer.use_eval_collator(SpecimenCollator(augment=False))
        result = trainer.train()
        log.info("training loss %.4f", result.training_loss)
        final = [entry for entry in trainer.state.log_history if "eval_macro_f1" in entry][-1]
        log.info("final macro F1 %.4f, balanced accuracy %.4f", final["eval_macro_f1"], final["eval_balanced_accuracy"])


if __name__ == "__main__":
    main()
