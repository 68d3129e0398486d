import argparse
from pathlib import Path

import lightning as L
import yaml
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from callbacks import EpochReport, WeightEMA
from datamodule import ParcelDataModule
from lit_crop import LitCrop


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", type=Path, default=Path(__file__).with_name("config.yaml"))
    ap.add_argument("--epochs", type=int)
    args = ap.parse_args()
    cfg = yaml.safe_load(args.config.read_text())
    if args.epochs:
        cfg["fit"]["epochs"] = args.epochs

    L.seed_everything(cfg["seed"])
    trainer = L.Trainer(
        max_epochs=cfg["fit"]["epochs"],
        accelerator="auto",
        devices=1,
        default_root_dir=cfg["run_dir"],
        logger=CSVLogger(cfg["run_dir"], name="csv"),
        log_every_n_steps=cfg["fit"]["log_every_n_steps"],
        gradient_clip_val=1.0,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        callbacks=[
            WeightEMA(cfg["fit"]["ema_decay"]),
            ModelCheckpoint(dirpath=Path(cfg["run_dir"]) / "ckpt", monitor="val/f1", mode="max", save_top_k=1,
                            auto_insert_metric_name=False, filename="best"),
            LearningRateMonitor(logging_interval="step"),
            EpochReport(),
        ],
    )
    trainer.fit(LitCrop(cfg), datamodule=ParcelDataModule(cfg))


if __name__ == "__main__":
    main()
