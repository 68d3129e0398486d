"""Causal language model on generated recipes, packed blocks, Hugging Face Trainer."""
import random
import tempfile

import torch
from transformers import (GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments,
                          default_data_collator, set_seed)

BLOCK = 128
STEPS = ["chop", "stir", "bake", "simmer", "whisk", "fold", "roast", "season", "drain", "knead"]
FOODS = ["onion", "garlic", "flour", "butter", "tomato", "basil", "rice", "lentils", "egg", "cream",
         "salmon", "pepper", "lemon", "honey", "yeast", "mushroom", "spinach", "carrot", "cheese"]
WAYS = ["gently", "until golden", "for ten minutes", "on low heat", "in a large bowl", "twice", "well"]


def write_recipe(rng):
    foods = rng.sample(FOODS, 4)
    lines = [f"{rng.choice(STEPS)} the {f} {rng.choice(WAYS)} ." for f in foods]
    lines.append(f"mix {foods[0]} with {foods[1]} and serve with {foods[2]} .")
    return " ".join(lines).split() + ["<end>"]


def packed_blocks(n_blocks, seed):
    rng = random.Random(seed)
    vocab, stream = {}, []
    while len(stream) < n_blocks * BLOCK:
        stream.extend(vocab.setdefault(w, len(vocab)) for w in write_recipe(rng))
    ids = torch.tensor(stream[:n_blocks * BLOCK]).view(n_blocks, BLOCK)
    return ids, len(vocab)


class Blocks(torch.utils.data.Dataset):
    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step}/{state.max_steps} loss {logs['loss']}", flush=True)


def main():
    set_seed(8)
    ids, vocab_size = packed_blocks(n_blocks=1200, seed=8)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=vocab_size, n_positions=BLOCK, n_embd=256, n_layer=4, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=0))
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=150,
            per_device_train_batch_size=8,
            learning_rate=5e-4,
            lr_scheduler_type="cosine",
            warmup_steps=15,
            weight_decay=0.05,
            optim="adamw_torch_fused",
            bf16=True,
            logging_steps=25,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = Trainer(model=model, args=args, train_dataset=Blocks(ids),
                          data_collator=default_data_collator, callbacks=[PrintLoss()])
        result = trainer.train()
        print(f"train loss {result.training_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
