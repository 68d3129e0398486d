"""Remaining-useful-life regression for a fleet of gas turbines."""
import warnings
from dataclasses import asdict

import lightning as L

from rul.callbacks import ConsoleLog
from rul.config import Config
from rul.datamodule import FleetData
from rul.module import RULModule


def main(cfg: Config):
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    L.seed_everything(cfg.seed)
    data = FleetData(cfg.engines, cfg.window, cfg.sensors, cfg.batch_size, cfg.windows_per_epoch, cfg.seed)
    model = RULModule(**{k: v for k, v in asdict(cfg).items() if k in RULModule.FIELDS})
    trainer = L.Trainer(
        max_epochs=cfg.epochs,
        accelerator="cpu",
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[ConsoleLog(every=10)],
    )
    trainer.fit(model, datamodule=data)


if __name__ == "__main__":
    main(Config())
