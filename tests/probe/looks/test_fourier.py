"""What counts as a Fourier transform by products with dense kernels."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.fourier import PairTransforms, are_sinusoids

TAPS = 256
SPECTRUM = torch.fft.rfft(torch.eye(TAPS))
DENSE = torch.cat([SPECTRUM.real, SPECTRUM.imag], 1).t().contiguous()
HANN = torch.hann_window(TAPS)
KERNELS = (DENSE * HANN)[:, None]
WAVES = torch.randn(2, 1, 1024)
FRAMES = torch.randn(8, TAPS)
BANK = torch.randn(TAPS, TAPS)
conv1d = torch.nn.functional.conv1d


def calls(work, second=None):
    """The calls that count, of two steps; the second may be another one."""
    pair = PairTransforms(torch)

    class Shown(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen = pair.before(function, args, kwargs or {})
            result = function(*args, **(kwargs or {}))
            if seen is not None:
                pair.after(seen, result, 1_000)
            return result

    with Shown():
        work()
        pair.is_second = True
        (second or work)()
    return pair.found


@pytest.mark.parametrize(
    ("work", "rows", "hop"),
    [
        (lambda: conv1d(WAVES, KERNELS, stride=64), TAPS + 2, 64),
        (lambda: conv1d(WAVES, KERNELS[: TAPS // 2 + 1], None, (32,)), TAPS // 2 + 1, 32),
        (lambda: FRAMES @ DENSE.t(), TAPS + 2, 0),
        (lambda: DENSE @ FRAMES.t(), TAPS + 2, 0),
        (lambda: torch.nn.functional.linear(FRAMES, DENSE), TAPS + 2, 0),
        (lambda: torch.einsum("bn,kn->bk", FRAMES, DENSE), TAPS + 2, 0),
        (lambda: torch.einsum("bn,nk->bk", FRAMES, DENSE.t()), TAPS + 2, 0),
    ],
)
def test_products_with_fourier_rows_count(work, rows, hop):
    (call,) = calls(work)
    assert (call.rows, call.taps, call.hop) == (rows, TAPS, hop)
    assert call.operations_left == pytest.approx(5 * 8 / (2 * rows))


@pytest.mark.parametrize(
    "work",
    [
        lambda: conv1d(WAVES, torch.nn.Parameter(KERNELS.clone()), stride=64),
        lambda: conv1d(WAVES, BANK[:, None], stride=64),
        lambda: conv1d(WAVES, KERNELS[:16], stride=64),
        lambda: FRAMES @ BANK,
        lambda: FRAMES @ DENSE[:TAPS],  # over the frequencies, not over the samples
        lambda: FRAMES.abs() @ FRAMES.t(),
    ],
)
def test_learned_random_few_and_others_do_not(work):
    assert calls(work) == []


def test_kernels_that_are_made_or_written_anew_in_each_step_do_not():
    kernels = KERNELS.clone()

    def second():
        kernels.mul_(1.0)
        conv1d(WAVES, kernels)

    assert calls(lambda: conv1d(WAVES, kernels), second) == []
    assert len(calls(lambda: conv1d(WAVES, kernels))) == 1


def test_backward_of_the_product_is_timed():
    waves = WAVES.clone().requires_grad_()
    (call,) = calls(lambda: conv1d(waves, KERNELS, stride=64).sum().backward())
    assert call.backward_ns > 0


def sinusoids(bins, taps=TAPS, window=None):
    rows = torch.cos(2 * math.pi * torch.as_tensor(bins)[:, None] * torch.arange(taps) / taps)
    return rows if window is None else rows * window


def test_real_and_imaginary_rows_may_be_stacked_mixed_whole_or_complex():
    whole = torch.fft.fft(torch.eye(TAPS))
    assert are_sinusoids(torch, DENSE)
    assert are_sinusoids(torch, torch.stack([SPECTRUM.real.t(), SPECTRUM.imag.t()], 1).flatten(0, 1))
    assert are_sinusoids(torch, torch.cat([whole.real, whole.imag]))
    assert are_sinusoids(torch, whole)
    assert are_sinusoids(torch, DENSE.double())
    padded = torch.nn.functional.pad(torch.hann_window(TAPS // 2), (TAPS // 4, TAPS // 4))
    assert are_sinusoids(torch, DENSE * padded)


def test_long_kernels_are_judged_by_some_of_their_rows():
    spectrum = torch.fft.rfft(torch.eye(1024))
    rows = torch.cat([spectrum.real, spectrum.imag], 1).t() * torch.hann_window(1024)
    assert are_sinusoids(torch, rows)
    assert not are_sinusoids(torch, rows[torch.randperm(len(rows))])


def cosine_transform():
    steps = torch.arange(TAPS)
    return torch.cos(math.pi / TAPS * (steps + 0.5) * steps[:, None])


def positions():
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, TAPS, 2) / TAPS)
    angles = torch.arange(TAPS)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


@pytest.mark.parametrize(
    "rows",
    [
        sinusoids(2.0 ** torch.linspace(1, 7, 84), window=HANN),  # constant-Q
        sinusoids(torch.linspace(0, 1, 80) ** 2 * 128, window=HANN),  # as mel
        cosine_transform(),
        positions().t(),
        positions(),
        torch.randn(TAPS, TAPS),
        torch.zeros(TAPS, TAPS),
        torch.ones(TAPS, TAPS),
        torch.eye(TAPS),
        torch.rand(129, TAPS).cumsum(1),
    ],
)
def test_other_frequencies_and_other_rows_are_no_fourier_transform(rows):
    assert not are_sinusoids(torch, rows)
