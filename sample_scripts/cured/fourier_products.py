"""A denoiser of waves whose spectral loss transforms them by the fast transform."""

import argparse

import torch
from torch import nn
from torch.nn import functional


class Spectrum(nn.Module):
    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)

    def forward(self, waves):
        spectrum = torch.stft(waves, self.n_fft, self.hop, window=self.window, return_complex=True)
        return torch.sqrt(spectrum.real.square() + spectrum.imag.square() + 1e-7)


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    time = torch.arange(args.samples) / 8_000
    clean = torch.sin(6.28 * time * (100 + 900 * torch.rand(256, 1)))
    net = nn.Sequential(nn.Conv1d(1, 8, 9, padding=4), nn.ReLU(), nn.Conv1d(8, 1, 9, padding=4))
    spectra = nn.ModuleList([Spectrum(1_024, 256), Spectrum(2_048, 512)])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(1, args.steps + 1):
        wanted = clean[torch.randint(len(clean), (args.batch_size,))]
        cleaned = net((wanted + 0.3 * torch.randn_like(wanted))[:, None])[:, 0]
        loss = functional.l1_loss(cleaned, wanted)
        for spectrum in spectra:
            loss = loss + functional.l1_loss(spectrum(cleaned).log(), spectrum(wanted).log())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8_192)
    main(parser.parse_args())
