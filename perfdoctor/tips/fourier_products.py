"""A Fourier transform is done by products with dense kernels.

## What it sees
In a few sampled steps, waves were convolved with, or multiplied by, fixed rows that are sinusoids of evenly
spaced frequencies: a short-time Fourier transform as `conv1d`, or a matrix of the transform in `matmul`,
`linear` or `einsum`. For n samples that takes about n² operations, a fast transform 5 n log2 n at most. Their
lines are named; the products of their backward count as well.

A fast transform does a fourth to a tenth as many operations a second as products do (measured on a CPU for
windows of 128 to 2,048 samples; `python bench/fourier_products.py`): it takes half the time for 256 samples,
a sixth for 1,024, and as long as products for windows under 128, which are not named.

## By hand
    torch.stft(wave, n_fft, hop, window=window, return_complex=True)  # conv1d(wave, kernels)
    torch.fft.rfft(frames * window)                                   # frames @ matrix

Its `.real` and `.imag`, or `.abs()`, are what the halves of the convolution were. With `center=True`, as by
default, it pads by n_fft // 2 on both sides, as most such modules do themselves: leave their padding out, or
set `center=False`.

## When not
Where the kernels are learned later on, or their frequencies are spaced otherwise (constant-Q, mel): these are
not named. Where the model is exported to a format without Fourier transforms.

Values are looked at where training runs on the CPU, without `torch.compile`.
"""

from __future__ import annotations

from perfdoctor.facts.script.fourier_products import FourierProductFacts, FourierProductLine
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step that a fast transform is likely to save
SHOWN = 3  # lines named
# How many times longer one operation takes in a fast transform than in products: bench/fourier_products.py.
SLOWER_LEAST, SLOWER_LIKELY, SLOWER_MOST = 4.0, 7.0, 10.0


@tip(
    title="Do Fourier transforms by torch.stft or torch.fft",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
)
def fourier_products(step: StepFacts, transforms: FourierProductFacts) -> Advice | None:
    """Advises fast transforms where products with Fourier rows take a noticeable share of the step."""
    share = transforms.share
    most, likely, least = (
        1 - min(1.0, slower * transforms.operations_left)
        for slower in (SLOWER_LEAST, SLOWER_LIKELY, SLOWER_MOST)
    )
    if share.likely * likely < NOTICEABLE or not transforms.lines:
        return None
    top = transforms.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms), backward included, is Fourier transforms"
    used = f"the {top.rows:,} fixed rows of {top.taps:,} that its {top.function or 'product'} multiplies by"
    return Advice(
        because=(
            f"{spent} by products with dense kernels, in {transforms.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            f"{used} are sinusoids of evenly spaced frequencies",
        ),
        change=removes(share.low * least, share.likely * likely, share.high * most),
        at=tuple(line.at for line in transforms.lines[:SHOWN]),
        code=_code(top),
    )


def _code(line: FourierProductLine) -> str:
    if not line.hop:
        return f"spectrum = torch.fft.rfft(frames * window)  # n={line.taps}; not: frames @ matrix"
    return (
        f"spectrum = torch.stft(wave, {line.taps}, {line.hop}, window=window, return_complex=True)\n"
        "magnitude = spectrum.abs()  # center=True, the default, pads: leave out what pads before"
    )
