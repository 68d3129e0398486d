import argparse
import logging
import warnings

import lightning as L

from cellvae.data import CellData
from cellvae.module import CellVAE

warnings.filterwarnings("ignore", ".*does not have many workers.*")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


class Print(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch}  elbo {m['train/elbo']:.2f}  kl {m['train/kl']:.2f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cells", type=int, default=4000)
    p.add_argument("--genes", type=int, default=2600)
    p.add_argument("--keep", type=int, default=1800)
    p.add_argument("--latent", type=int, default=16)
    p.add_argument("--batch-size", type=int, default=100)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--seed", type=int, default=77)
    a = p.parse_args()

    L.seed_everything(a.seed, verbose=False)
    data = CellData(a.cells, a.genes, a.keep, a.batch_size, a.seed)
    model = CellVAE(a.keep, data.donors, a.latent)
    trainer = L.Trainer(max_epochs=a.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=5.0,
                        callbacks=[Print()])
    trainer.fit(model, datamodule=data)


if __name__ == "__main__":
    main()
