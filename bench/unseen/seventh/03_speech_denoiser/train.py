"""Waveform denoiser (1-D U-Net with a dilated bottleneck), SI-SNR loss, EMA weights."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def synth_voices(n, length, sr, gen):
    """Voiced-like signals: a few gliding harmonics under a slow envelope."""
    t = torch.arange(length) / sr
    f0 = 90 + 150 * torch.rand(n, 1, generator=gen)
    glide = 40 * torch.randn(n, 1, generator=gen)
    phase = 2 * math.pi * (f0 * t + 0.5 * glide * t ** 2)
    wave = sum(torch.sin(k * phase) / k for k in range(1, 6))
    rate = 1 + 3 * torch.rand(n, 1, generator=gen)
    env = torch.sin(2 * math.pi * rate * t + 6 * torch.rand(n, 1, generator=gen)).clamp_min(0)
    wave = wave * env
    return wave / wave.std(1, keepdim=True).clamp_min(1e-3)


def synth_noises(n, length, gen):
    white = torch.randn(n, 1, length, generator=gen)
    kernels = torch.randn(8, 1, 33, generator=gen) * torch.hann_window(33)
    coloured = F.conv1d(white, kernels, padding=16)[:, 0] if n < 8 else torch.cat(
        [F.conv1d(white[i::8], kernels[i:i + 1], padding=16)[:, 0] for i in range(8)])
    return coloured / coloured.std(1, keepdim=True)


class Mixer:
    """Draws noisy/clean crops for a whole batch at once."""

    def __init__(self, voices, noises, crop, gen):
        self.voices, self.noises, self.crop, self.gen = voices, noises, crop, gen
        self.offsets = torch.arange(crop)

    def crops(self, bank, n):
        rows = torch.randint(len(bank), (n, 1), generator=self.gen)
        starts = torch.randint(bank.size(1) - self.crop, (n, 1), generator=self.gen)
        return bank[rows, starts + self.offsets]

    def batch(self, n):
        clean, noise = self.crops(self.voices, n), self.crops(self.noises, n)
        snr_db = -5 + 15 * torch.rand(n, 1, generator=self.gen)
        noisy = clean + noise * 10 ** (-snr_db / 20)
        return noisy.unsqueeze(1), clean.unsqueeze(1)


class DilatedBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.conv = nn.Conv1d(c, 2 * c, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.mix(F.glu(self.conv(x), dim=1))


class Denoiser(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.enc1, self.enc2 = nn.Conv1d(1, c, 8, 4, 2), nn.Conv1d(c, 2 * c, 8, 4, 2)
        self.body = nn.Sequential(*[DilatedBlock(2 * c, 2 ** (i % 4)) for i in range(8)])
        self.dec2 = nn.ConvTranspose1d(2 * c, c, 8, 4, 2)
        self.dec1 = nn.ConvTranspose1d(c, 1, 8, 4, 2)

    def forward(self, x):
        a = F.gelu(self.enc1(x))
        b = F.gelu(self.enc2(a))
        return self.dec1(F.gelu(self.dec2(self.body(b))) + a)


def si_snr(est, ref):
    est, ref = est.squeeze(1), ref.squeeze(1)
    ref = ref - ref.mean(1, keepdim=True)
    est = est - est.mean(1, keepdim=True)
    proj = (est * ref).sum(1, keepdim=True) / ref.pow(2).sum(1, keepdim=True).clamp_min(1e-6) * ref
    return 10 * torch.log10(proj.pow(2).sum(1).clamp_min(1e-6) / (est - proj).pow(2).sum(1).clamp_min(1e-6))


@torch.inference_mode()
def validate(model, noisy, clean):
    model.eval()
    gain = si_snr(model(noisy), clean) - si_snr(noisy, clean)
    model.train()
    return gain.mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--crop", type=int, default=8000)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--ema", type=float, default=0.99)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--val-every", type=int, default=100)
    args = p.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    voices, noises = synth_voices(160, 16000, 8000, gen), synth_noises(64, 16000, gen)
    mixer = Mixer(voices[:144], noises, args.crop, gen)
    val_noisy, val_clean = Mixer(voices[144:], noises, args.crop, gen).batch(16)

    model = Denoiser()
    ema = Denoiser()
    ema.load_state_dict(model.state_dict())
    params, ema_params = list(model.parameters()), [q.requires_grad_(False) for q in ema.parameters()]
    opt = torch.optim.AdamW(params, lr=args.lr, fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps)

    best, start = -math.inf, time.time()
    for step in range(1, args.steps + 1):
        noisy, clean = mixer.batch(args.batch_size)
        loss = -si_snr(model(noisy), clean).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 5.0)
        opt.step()
        sched.step()
        torch._foreach_lerp_(ema_params, params, 1 - args.ema)

        if step % args.log_every == 0:
            print(f"step {step:4d}  si-snr {-loss.item():6.2f} dB  {step / (time.time() - start):.2f} it/s", flush=True)
        if step % args.val_every == 0:
            gain = validate(ema, val_noisy, val_clean)
            print(f"step {step:4d}  validation gain {gain:.2f} dB", flush=True)
            if gain > best:
                best = gain
                torch.save(ema.state_dict(), "/tmp/denoiser_best.pt")


if __name__ == "__main__":
    main()
