"""A denoiser of waves whose spectral loss transforms them by convolutions with Fourier rows."""

# expect: verdict=compute finding=fourier-products

import argparse

import torch
from torch import nn
from torch.nn import functional


class Spectrum(nn.Module):
    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        rows = torch.fft.rfft(torch.eye(n_fft))
        kernels = torch.cat([rows.real, rows.imag], 1).t() * torch.hann_window(n_fft)
        self.register_buffer("kernels", kernels[:, None].contiguous(), persistent=False)

    def forward(self, waves):
        waves = functional.pad(waves[:, None], (self.n_fft // 2, self.n_fft // 2), mode="reflect")
        spectrum = functional.conv1d(waves, self.kernels, stride=self.hop)  # <- finding
        real, imaginary = spectrum.chunk(2, 1)
        return torch.sqrt(real.square() + imaginary.square() + 1e-7)


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
