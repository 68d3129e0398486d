"""The Trainer of transformers, or else that of Lightning, whichever is installed."""

import tempfile
from importlib.util import find_spec

import common
import torch

args = common.arguments()
width = common.sized(args, 1024, 32)
losses = []
numbers = common.steps(args, losses)


class Examples(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        return {"x": torch.full((width,), index % 7 / 7)}


def with_transformers(folder):
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = common.layers(width, 6)

        def forward(self, x):
            loss = self.layers(x).square().mean()
            losses.append(loss.detach())
            return {"loss": loss}

    class Counts(transformers.TrainerCallback):
        def on_train_begin(self, *given, **named):
            next(numbers)

        def on_step_end(self, *given, **named):
            next(numbers, None)

    settings = transformers.TrainingArguments(
        folder,
        max_steps=common.made(args),
        per_device_train_batch_size=8,
        lr_scheduler_type="constant",
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=args.device == "cpu",
    )
    transformers.Trainer(Model(), settings, train_dataset=Examples(), callbacks=[Counts()]).train()


def with_lightning(folder):
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = common.layers(width, 6)

        def on_train_start(self):
            next(numbers)

        def on_train_batch_end(self, *given):
            next(numbers, None)

        def training_step(self, batch, index):
            loss = self.layers(batch["x"]).square().mean()
            losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    trainer = lightning.Trainer(
        max_steps=common.made(args),
        accelerator="gpu" if args.device == "cuda" else "cpu",
        devices=1,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(Examples(), batch_size=8))


with tempfile.TemporaryDirectory() as folder:
    if find_spec("transformers"):
        with_transformers(folder)
    else:
        with_lightning(folder)
