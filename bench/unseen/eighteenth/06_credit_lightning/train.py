"""Default-risk scoring on loan applications.

    python train.py
    python train.py --max-steps 60 --width 256
"""
import argparse
import logging
import warnings

from credit import pl
from credit.callbacks import LinePrinter, RankingMonitor, StochasticWeightTail
from credit.data import LoanDataModule
from credit.model import RiskNet


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=13)
    p.add_argument("--rows", type=int, default=160_000)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--width", type=int, default=192)
    p.add_argument("--blocks", type=int, default=4)
    p.add_argument("--lr", type=float, default=1.5e-3)
    p.add_argument("--max-steps", type=int, default=900)
    p.add_argument("--log-every", type=int, default=25)
    return p.parse_args()


def main():
    args = parse()
    warnings.filterwarnings("ignore", module="lightning|pytorch_lightning")
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    pl.seed_everything(args.seed)

    dm = LoanDataModule(rows=args.rows, batch_size=args.batch_size, seed=args.seed)
    net = RiskNet(
        n_numeric=dm.n_numeric,
        cardinalities=dm.cardinalities,
        width=args.width,
        blocks=args.blocks,
        lr=args.lr,
        total_steps=args.max_steps,
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=args.max_steps,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=10,
        callbacks=[
            RankingMonitor(n_segments=dm.n_regions, every=args.log_every),
            StochasticWeightTail(start=int(0.75 * args.max_steps), every=10),
            LinePrinter(every=args.log_every * 2),
        ],
    )
    trainer.fit(net, datamodule=dm)
    print("final", {k: round(float(v), 4) for k, v in sorted(trainer.callback_metrics.items())})


if __name__ == "__main__":
    main()
