import lightning as L
import torch
from torch import nn
from torch.nn import functional as F


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.SiLU()]
    return nn.Sequential(*layers)


def nb_log_likelihood(x, mu, theta, eps=1e-8):
    log_sum = torch.log(theta + mu + eps)
    return (theta * (torch.log(theta + eps) - log_sum) + x * (torch.log(mu + eps) - log_sum)
            + torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1))


class CellVAE(L.LightningModule):
    def __init__(self, genes, donors, latent, hidden=768, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.donors = donors
        self.encoder = mlp(genes + donors, hidden, hidden)
        self.moments = nn.Linear(hidden, 2 * latent)
        self.decoder = mlp(latent + donors, hidden, hidden)
        self.share = nn.Linear(hidden, genes)
        self.log_theta = nn.Parameter(torch.zeros(genes))

    def forward(self, x, library, donor):
        who = F.one_hot(donor, self.donors).to(x.dtype)
        scaled = torch.log1p(x * (1000.0 / library.clamp_min(1.0))[:, None])
        mean, logvar = self.moments(self.encoder(torch.cat([scaled, who], 1))).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        mu = library[:, None] * self.share(self.decoder(torch.cat([z, who], 1))).softmax(-1)
        return mu, mean, logvar

    def training_step(self, batch, index):
        x, library, donor = batch
        mu, mean, logvar = self(x, library, donor)
        fit = nb_log_likelihood(x, mu, self.log_theta.exp()).sum(1)
        kl = 0.5 * (mean ** 2 + logvar.exp() - 1 - logvar).sum(1)
        elbo = (fit - min(1.0, self.global_step / 100) * kl).mean()
        self.log_dict({"train/elbo": elbo, "train/kl": kl.mean()}, on_step=False, on_epoch=True)
        return -elbo

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4)
