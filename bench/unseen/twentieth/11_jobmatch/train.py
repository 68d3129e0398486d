import dataclasses
import tempfile

from transformers import HfArgumentParser, Trainer, TrainingArguments, set_seed

from corpus import MatchingSet, collate
from matcher import JobMatcher
from settings import Settings


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    (s,) = HfArgumentParser(Settings).parse_args_into_dataclasses()
    print(dataclasses.asdict(s))
    set_seed(s.seed)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=s.steps, per_device_train_batch_size=s.batch,
            per_device_eval_batch_size=32, learning_rate=s.lr, warmup_steps=15,
            lr_scheduler_type="cosine", weight_decay=0.01, logging_steps=20,
            eval_strategy="steps", eval_steps=80, save_strategy="no", report_to="none",
            remove_unused_columns=False, label_names=["labels"], disable_tqdm=True,
            use_cpu=True, seed=s.seed, dataloader_pin_memory=False)
        trainer = Trainer(
            model=JobMatcher(s), args=arguments, data_collator=collate,
            train_dataset=MatchingSet(s, s.profiles, s.seed + 1),
            eval_dataset=MatchingSet(s, 96, s.seed + 2), compute_metrics=accuracy)
        trainer.train()


if __name__ == "__main__":
    main()
