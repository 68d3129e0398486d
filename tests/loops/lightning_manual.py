"""Lightning with manual optimisation: a GAN with two optimizers."""

# truth: steps=24 marker=update updates_per_step=2 framework=lightning
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
lightning.seed_everything(0, verbose=False)


class Gan(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16))
        self.discriminator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch, index):
        (real,) = batch
        g_optimizer, d_optimizer = self.optimizers()
        fake = self.generator(torch.randn(len(real), 8))
        g_optimizer.zero_grad()
        self.manual_backward(-self.discriminator(fake).mean())
        g_optimizer.step()
        d_optimizer.zero_grad()
        self.last = self.discriminator(fake.detach()).mean() - self.discriminator(real).mean()
        self.manual_backward(self.last)
        d_optimizer.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters()), torch.optim.Adam(
            self.discriminator.parameters()
        )


model = Gan()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(torch.randn(96, 16)), batch_size=8))
print(f"loss {model.last.item():.6f}")
