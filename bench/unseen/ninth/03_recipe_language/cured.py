"""Language model on generated recipes, trained with Lightning."""
import argparse
import random

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

VERBS = "chop fry boil bake mix stir roast grill peel slice whisk simmer season drain".split()
FOODS = ("onion garlic tomato basil carrot potato rice pasta chicken beef egg butter flour "
         "sugar milk cream pepper salt lemon thyme mushroom cheese spinach bean").split()
TOOLS = "pan pot bowl oven tray board jug grater".split()
TIMES = "two three five ten fifteen twenty thirty".split()
FILLER = "the in with for minutes and then until golden soft add a of on a low high heat .".split()


def write_recipe(rng):
    out = []
    for _ in range(rng.randint(4, 9)):
        food = rng.sample(FOODS, 3)
        out += [rng.choice(VERBS), "the", food[0], "and", food[1], "in", "a", rng.choice(TOOLS)]
        if rng.random() < 0.6:
            out += ["for", rng.choice(TIMES), "minutes", "on", "a", rng.choice(["low", "high"]), "heat"]
        if rng.random() < 0.4:
            out += ["then", "add", "the", food[2], "until", rng.choice(["golden", "soft"])]
        out.append(".")
    return out


class Recipes(Dataset):
    def __init__(self, tokens, context):
        self.tokens = tokens
        self.context = context

    def __len__(self):
        return (len(self.tokens) - 1) // self.context

    def __getitem__(self, i):
        a = i * self.context
        chunk = self.tokens[a:a + self.context + 1]
        return chunk[:-1], chunk[1:]


class RecipeData(L.LightningDataModule):
    def __init__(self, n_recipes, context, batch_size):
        super().__init__()
        self.n_recipes, self.context, self.batch_size = n_recipes, context, batch_size
        self.vocab = sorted(set(VERBS + FOODS + TOOLS + TIMES + FILLER))

    def setup(self, stage=None):
        rng = random.Random(11)
        index = {w: i for i, w in enumerate(self.vocab)}
        text = torch.tensor([index[w] for _ in range(self.n_recipes) for w in write_recipe(rng)])
        cut = int(0.93 * len(text))
        self.train_set = Recipes(text[:cut], self.context)
        self.val_set = Recipes(text[cut:], self.context)

    def train_dataloader(self):
        return DataLoader(self.train_set, self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, self.batch_size)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class RecipeLM(L.LightningModule):
    def __init__(self, vocab, context=64, dim=96, layers=3, heads=4, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(context, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[:ids.size(1)]
        return self.head(self.norm(self.blocks(x)))

    def loss(self, batch):
        ids, target = batch
        return F.cross_entropy(self(ids).flatten(0, 1), target.flatten())

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), prog_bar=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.05)
        sched = torch.optim.lr_scheduler.OneCycleLR(
            opt, self.hparams.lr, total_steps=int(self.trainer.estimated_stepping_batches))
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class GradientStats(Callback):
    """Keeps an eye on the health of the gradients, layer by layer."""

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if trainer.global_step % trainer.log_every_n_steps != trainer.log_every_n_steps - 1:
            return
        stats = {}
        for name, p in pl_module.named_parameters():
            if p.grad is None or p.dim() < 2:
                continue
            stats[f"grad_norm/{name}"] = p.grad.norm().item()
        pl_module.log_dict(stats)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--recipes", type=int, default=2400)
    p.add_argument("--context", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--out", default="/tmp/recipe_lm")
    args = p.parse_args()
    L.seed_everything(3)
    data = RecipeData(args.recipes, args.context, args.batch_size)
    model = RecipeLM(len(data.vocab), args.context, lr=args.lr)
    trainer = L.Trainer(
        max_epochs=args.epochs, accelerator="cpu", log_every_n_steps=50, gradient_clip_val=1.0,
        logger=CSVLogger(args.out), enable_progress_bar=False, enable_checkpointing=False,
        callbacks=[LearningRateMonitor("step"), GradientStats()])
    trainer.fit(model, data)
    print("val_loss", float(trainer.callback_metrics["val_loss"]))


if __name__ == "__main__":
    main()
