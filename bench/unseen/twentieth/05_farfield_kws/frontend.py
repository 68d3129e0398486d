import math

import torch
from torch import nn


def mel_matrix(n_mels, n_fft, sr, lo=60.0, hi=7600.0):
    to_mel = lambda f: 2595.0 * math.log10(1 + f / 700.0)
    pts = torch.linspace(to_mel(lo), to_mel(hi), n_mels + 2)
    hz = 700.0 * (10 ** (pts / 2595.0) - 1)
    freqs = torch.linspace(0, sr / 2, n_fft // 2 + 1)
    up = (freqs[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - freqs[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(up, down).clamp_min(0)


class LogMel(nn.Module):
    def __init__(self, n_mels, sr, n_fft=512, hop=160):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fb", mel_matrix(n_mels, n_fft, sr))

    @torch.no_grad()
    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        mel = torch.matmul(self.fb, power)
        out = torch.log(mel + 1e-5)
        return (out - out.mean(-1, keepdim=True)) / (out.std(dim=(1, 2), keepdim=True) + 1e-3)
