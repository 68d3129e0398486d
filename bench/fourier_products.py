"""What a Fourier transform by products with dense kernels costs beside torch.stft and torch.fft.rfft.

    python bench/fourier_products.py

Forward and backward, of windows of 32 to 2,048 samples, without what is done to the result.
`perfdoctor/tips/fourier_products.py` promises by these figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

ROUNDS = 15
WAVES, SAMPLES = 16, 8192


def basis(taps: int) -> Tensor:
    """Windowed cosines and sines, one row each: (taps + 2, taps)."""
    spectrum = torch.fft.rfft(torch.eye(taps))
    return torch.cat([spectrum.real, spectrum.imag], 1).t().contiguous() * torch.hann_window(taps)


def by_convolution(waves: Tensor, rows: Tensor) -> Tensor:
    """Frames a quarter of a window apart, by a convolution with the rows."""
    taps = rows.shape[1]
    padded = functional.pad(waves[:, None], (taps // 2, taps // 2), mode="reflect")
    return functional.conv1d(padded, rows[:, None], stride=taps // 4)


def by_stft(waves: Tensor, rows: Tensor) -> Tensor:
    """The same, by the fast transform."""
    taps = rows.shape[1]
    return torch.stft(waves, taps, taps // 4, window=torch.hann_window(taps), return_complex=True)


def by_matrix(waves: Tensor, rows: Tensor) -> Tensor:
    """Frames that do not overlap, by a product with the rows."""
    return waves.view(WAVES, -1, rows.shape[1]) @ rows.t()


def by_rfft(waves: Tensor, rows: Tensor) -> Tensor:
    """The same, by the fast transform."""
    taps = rows.shape[1]
    return torch.fft.rfft(waves.view(WAVES, -1, taps) * torch.hann_window(taps))


def seconds(transform: Callable[[Tensor, Tensor], Tensor], taps: int) -> float:
    """Forward and backward, of CPU time, of one core; the shortest."""
    rows = basis(taps)
    waves = torch.randn(WAVES, SAMPLES, requires_grad=True)
    took = []
    for _ in range(ROUNDS):
        transformed = transform(waves, rows).detach()
        gradient = torch.randn_like(transformed)
        begin = time.process_time()
        transform(waves, rows).backward(gradient)
        took.append(time.process_time() - begin)
    return min(took)


def main() -> None:
    """Compare them all."""
    torch.set_num_threads(1)
    for taps in (32, 64, 128, 256, 512, 1024, 2048):
        ratios = []
        for dense, fast in ((by_convolution, by_stft), (by_matrix, by_rfft)):
            dense_s, fast_s = seconds(dense, taps), seconds(fast, taps)
            ratios.append(f"{dense_s * 1e3:7.1f} ms, {fast_s * 1e3:6.1f} ms, left {fast_s / dense_s:4.0%}")
        print(f"{taps:5} taps: convolution and stft {ratios[0]}; product and rfft {ratios[1]}", flush=True)


if __name__ == "__main__":
    main()
