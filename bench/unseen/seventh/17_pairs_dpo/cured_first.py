"""DPO on preference pairs with a HF Trainer subclass and a small Llama-style model."""
import argparse
import copy
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

PAD, BOS, EOS, SEP = 0, 1, 2, 3
VOCAB = 800


def make_pairs(n, seed):
    """Prompts ask for an ordered list; the chosen answer keeps the order, the rejected one does not."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        k = min(88, max(6, int(rng.lognormvariate(2.9, 0.45))))
        start = rng.randint(10, VOCAB - 2 * k - 10)
        items = [start + 2 * j for j in range(k)]
        shuffled = rng.sample(items, k)
        bad = list(items)
        i, j = rng.sample(range(k), 2)
        bad[i], bad[j] = bad[j], bad[i]
        pairs.append({"prompt": [BOS] + shuffled + [SEP], "chosen": items + [EOS],
                      "rejected": bad[:rng.randint(k - 2, k)] + [EOS]})
    return pairs


class PairDataset(Dataset):
    def __init__(self, pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


@dataclass
class PairCollator:
    """Stacks the chosen answers on top of the rejected ones."""
    max_length: int

    def __call__(self, pairs):
        answers = [(p["prompt"], p[side]) for side in ("chosen", "rejected") for p in pairs]
        width = min(self.max_length, max(len(prompt) + len(answer) for prompt, answer in answers))
        ids = np.full((len(answers), width), PAD, dtype=np.int64)
        labels = np.full((len(answers), width), -100, dtype=np.int64)
        for r, (prompt, answer) in enumerate(answers):
            both = (prompt + answer)[:width]
            ids[r, :len(both)] = both
            labels[r, len(prompt):len(both)] = both[len(prompt):]
        ids = torch.from_numpy(ids)
        return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": torch.from_numpy(labels)}


def sequence_logps(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
    target = batch["labels"][:, 1:]
    nll = F.cross_entropy(logits[:, :-1].flatten(0, 1), target.flatten(), ignore_index=-100, reduction="none")
    return -nll.view_as(target).sum(-1)


class DPOTrainer(Trainer):
    def __init__(self, *args, ref_model, beta, **kwargs):
        super().__init__(*args, **kwargs)
        self.ref_model = ref_model.eval().requires_grad_(False)
        self.beta = beta
        self.hits, self.margins = [], []

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        policy = sequence_logps(model, inputs)
        with torch.no_grad():
            ref = sequence_logps(self.ref_model, inputs)
        chosen, rejected = (self.beta * (policy - ref)).chunk(2)
        margin = chosen - rejected
        self.hits.append((margin > 0).float().mean().detach())
        self.margins.append(margin.mean().detach())
        loss = -F.logsigmoid(margin).mean()
        return (loss, {"margin": margin}) if return_outputs else loss

    def log(self, logs, *args, **kwargs):
        if "loss" in logs and self.hits:
            logs["reward_accuracy"] = torch.stack(self.hits).mean().item()
            logs["reward_margin"] = torch.stack(self.margins).mean().item()
            self.hits, self.margins = [], []
        super().log(logs, *args, **kwargs)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pairs", type=int, default=160)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--max-length", type=int, default=160)
    ap.add_argument("--hidden", type=int, default=96)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--beta", type=float, default=0.1)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--init", default=None, help="SFT checkpoint; random weights if not given")
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    set_seed(args.seed)
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=args.hidden, intermediate_size=3 * args.hidden,
                         num_hidden_layers=args.layers, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=256, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS)
    model = LlamaForCausalLM.from_pretrained(args.init) if args.init else LlamaForCausalLM(config)
    ref_model = copy.deepcopy(model)
    dataset = PairDataset(make_pairs(args.pairs, args.seed))
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, {len(dataset)} pairs")

    trainer = DPOTrainer(
        model=model, ref_model=ref_model, beta=args.beta, train_dataset=dataset,
        data_collator=PairCollator(args.max_length),
        args=TrainingArguments(
            output_dir="/tmp/pairs_dpo", num_train_epochs=args.epochs, per_device_train_batch_size=args.batch_size,
            learning_rate=args.lr, warmup_steps=10, lr_scheduler_type="cosine", logging_steps=10,
            save_strategy="no", remove_unused_columns=False, dataloader_pin_memory=False, disable_tqdm=True,
            report_to=[], use_cpu=not torch.cuda.is_available(), seed=args.seed))
    trainer.train()
    model.save_pretrained("/tmp/pairs_dpo")


if __name__ == "__main__":
    main()
