"""Denoising of three-component seismograms with a 1-D U-Net and a multi-resolution spectral loss."""
import logging
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("denoise")


@dataclass
class Config:
    samples: int = 4096          # 41 s at 100 Hz
    n_train: int = 768
    n_val: int = 64
    batch: int = 8
    steps: int = 260
    lr: float = 1e-3
    width: int = 12
    resolutions: tuple = ((256, 32), (512, 64), (1024, 128))
    spectral_weight: float = 0.5
    val_every: int = 65
    ckpt: str = "/tmp/seismo_denoiser.pt"


def synth_events(n, samples, seed):
    """P and S wave packets with exponential coda, on three components; returns (clean, noisy)."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(samples) / 100.0
    u = lambda lo, hi, *s: lo + (hi - lo) * torch.rand(*s, generator=g)
    t_p = u(5, 18, n, 1, 1)
    t_s = t_p + u(3, 14, n, 1, 1)
    clean = torch.zeros(n, 3, samples)
    for onset, amp, f_lo, f_hi, decay in ((t_p, 0.6, 4, 12, 1.2), (t_s, 1.0, 2, 7, 2.5)):
        lag = t - onset
        env = torch.where(lag > 0, (lag.clamp(min=0) / 0.3).clamp(max=1) * torch.exp(-lag.clamp(min=0) / decay), 0.0)
        for _ in range(2):
            clean += amp * u(0.3, 1, n, 3, 1) * env * torch.sin(2 * math.pi * u(f_lo, f_hi, n, 1, 1) * lag + u(0, 6.28, n, 3, 1))
    white = torch.randn(n, 3, samples, generator=g)
    micro = torch.sin(2 * math.pi * u(0.1, 0.3, n, 3, 1) * t + u(0, 6.28, n, 3, 1))
    noisy = clean + u(0.1, 0.5, n, 1, 1) * white + u(0.1, 0.6, n, 1, 1) * micro
    scale = noisy.std(dim=(1, 2), keepdim=True)
    return clean / scale, noisy / scale


class STFT(nn.Module):
    """Magnitude spectrogram; input (N, samples), output (N, bins, frames)."""

    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)

    def forward(self, wave):
        out = torch.stft(wave, self.n_fft, self.hop, window=self.window, center=True, pad_mode="reflect", return_complex=True)
        re, im = out.real, out.imag
        return torch.sqrt(re.square() + im.square() + 1e-7)


class SpectralLoss(nn.Module):
    """Spectral convergence plus log-magnitude distance, averaged over window lengths (Yamamoto et al. 2020)."""

    def __init__(self, resolutions):
        super().__init__()
        self.stfts = nn.ModuleList(STFT(n, h) for n, h in resolutions)

    def forward(self, pred, target):
        pred, target = pred.flatten(0, 1), target.flatten(0, 1)
        loss = 0.0
        for stft in self.stfts:
            p, t = stft(pred), stft(target)
            loss = loss + torch.linalg.norm(p - t) / torch.linalg.norm(t) + F.l1_loss(p.log(), t.log())
        return loss / len(self.stfts)


class Block(nn.Module):
    def __init__(self, cin, cout, kernel=7):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(cin, cout, kernel, padding=kernel // 2), nn.BatchNorm1d(cout), nn.ReLU(inplace=True),
                                 nn.Conv1d(cout, cout, kernel, padding=kernel // 2), nn.BatchNorm1d(cout), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.net(x)


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        w = [width, width * 2, width * 3, width * 4]
        self.enc = nn.ModuleList(Block(a, b) for a, b in zip([3] + w[:-1], w))
        self.dec = nn.ModuleList(Block(a + b, a) for a, b in zip(w[:-1], w[1:]))
        self.out = nn.Conv1d(width, 3, 1)

    def forward(self, x):
        skips, h = [], x
        for k, block in enumerate(self.enc):
            h = block(h if k == 0 else F.avg_pool1d(h, 4))
            skips.append(h)
        for k in reversed(range(len(self.dec))):
            h = F.interpolate(h, scale_factor=4, mode="nearest")
            h = self.dec[k](torch.cat([skips[k], h], 1))
        return x - self.out(h)          # the network predicts the noise


def snr_db(pred, clean):
    return (10 * torch.log10(clean.square().sum((1, 2)) / (pred - clean).square().sum((1, 2)).clamp(min=1e-9))).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.clean, self.noisy = synth_events(cfg.n_train, cfg.samples, seed=0)
        self.val_clean, self.val_noisy = synth_events(cfg.n_val, cfg.samples, seed=1)
        self.model = Denoiser(cfg.width)
        self.spectral = SpectralLoss(cfg.resolutions)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.steps)

    def batches(self):
        while True:
            for idx in torch.randperm(self.cfg.n_train).split(self.cfg.batch):
                yield self.noisy[idx], self.clean[idx]

    def train_step(self, noisy, clean):
        pred = self.model(noisy)
        loss = F.l1_loss(pred, clean) + self.cfg.spectral_weight * self.spectral(pred, clean)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        pred = torch.cat([self.model(x) for x in self.val_noisy.split(self.cfg.batch)])
        self.model.train()
        return snr_db(pred, self.val_clean).item(), snr_db(self.val_noisy, self.val_clean).item()

    def fit(self):
        window = []
        for step, (noisy, clean) in zip(range(1, self.cfg.steps + 1), self.batches()):
            window.append(self.train_step(noisy, clean))
            if step % 10 == 0:
                log.info("step %4d  loss %.4f", step, torch.stack(window).mean().item())
                window.clear()
            if step % self.cfg.val_every == 0:
                log.info("         snr %.2f dB (input %.2f dB)", *self.validate())
                torch.save({"model": self.model.state_dict(), "step": step}, self.cfg.ckpt)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(7)
    Trainer(Config()).fit()
