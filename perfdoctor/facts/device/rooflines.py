"""Tells what a device's peak rates leave of the time of calls whose work is known: NarrowedDoubles.

The rates bound from below what an operator takes: it computes, and it moves bytes. What is far above both
bounds is held up by something else, such as a kernel made for other shapes. TF32 and 16 bits hardly change
that; out of float64 another kernel is chosen in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.backends import Tf32Settings
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing
from perfdoctor.trace.results import DevicePeak, KernelClass, WorkUse

FAR = 5.0  # times as long as the roofline: tuned kernels reach half of it or more, small ones a third
HOPELESS = 10.0  # times as long: from FAR on to here, ever less is likely to go with another number type
# Of the peak rates, by products that are large and aligned. On an H200: in TF32 0.5 to 0.83, in 16 bits 0.66
# to 0.8. Makers of devices promise no more than 0.7 to 0.8.
REACHED = (0.4, 0.65, 0.8)
LAUNCH_US = 5.0  # of any call: no number type makes it shorter
HEAVY = (KernelClass.MATMUL, KernelClass.CONVOLUTION, KernelClass.ATTENTION)
HALF = 0.5  # of the bytes, in numbers half as wide
MOVED = (0.3, 0.5, 0.5)  # of the time of what moves bytes and hardly computes, where half of them go
UNKNOWN = (0.2, 0.5, 0.95)  # where the rates are not known: float64 has a half to a sixty-fourth of float32's

Shares = tuple[float, float, float]  # at worst, likely, at best


@dataclass(frozen=True)
class NarrowedDoubles:
    """What single precision takes out of the step of a device, as shares of it; None where nothing tells."""

    gone: Shares | None


def least_us(use: WorkUse, peak: DevicePeak) -> float | None:
    """The time these calls take at the device's limits, or None if a limit is not known."""
    flops_per_s = peak.flops_per_s.get(use.dtype or "")
    if not flops_per_s or use.bytes is None:
        return None
    return 1e6 * use.count * max(use.flops / flops_per_s, use.bytes / peak.bytes_per_s)


def is_far(use: WorkUse, peak: DevicePeak) -> bool:
    """Whether these calls are far from both limits."""
    least = least_us(use, peak)
    return bool(least) and use.us > FAR * (least or 0.0)


def hope(use: WorkUse, peak: DevicePeak) -> float:
    """How likely rates are to tell what another number type brings: 1 near the limits, 0 far from them."""
    least = least_us(use, peak)
    return min(1.0, max(0.0, (HOPELESS - use.us / least) / (HOPELESS - FAR))) if least else 1.0


def hoped(uses: Sequence[WorkUse], peak: DevicePeak) -> float:
    """The share of the time of `uses` of which another number type is likely to take a part."""
    total_us = sum(use.us for use in uses)
    return sum(use.us * hope(use, peak) for use in uses) / total_us if total_us > 0 else 0.0


def moves_bytes(use: WorkUse, peak: DevicePeak) -> bool:
    """Whether the rate of memory, not that of computing, bounds these calls."""
    flops_per_s = peak.flops_per_s.get(use.dtype or "")
    return bool(flops_per_s and use.bytes) and (use.bytes or 0.0) * (flops_per_s or 0.0) > (
        use.flops * peak.bytes_per_s
    )


def part_of(some: Sequence[WorkUse], uses: Sequence[WorkUse]) -> float:
    """The share of the time of `uses` that some of them take; 0 where nothing is known."""
    total_us = sum(use.us for use in uses)
    return sum(use.us for use in some) / total_us if total_us > 0 else 0.0


def gone(uses: Sequence[WorkUse], peak: DevicePeak, dtype: str, bytes_left: float = 1.0) -> Shares | None:
    """Of the time of these calls, what goes where they compute in another number type.

    `bytes_left`: the share of the bytes that are moved then. None where neither work nor rate is known.
    What is far from both limits goes at best as far as its bytes do, and not at worst.
    """
    total_us, rate = sum(use.us for use in uses), peak.flops_per_s.get(dtype)
    if not rate or total_us <= 0:
        return None

    def saved_us(use: WorkUse, reached: float) -> float:
        moving_s = bytes_left * (use.bytes or 0.0) / peak.bytes_per_s
        least = use.count * max(LAUNCH_US, 1e6 * max(use.flops / rate, moving_s) / reached)
        # what bytes bound goes on as close to that bound as it is now
        return max(0.0, use.us - max(least, use.us * bytes_left if moves_bytes(use, peak) else 0.0))

    low_us = likely_us = high_us = 0.0
    for use in uses:
        sure = hope(use, peak)
        least, usual, most = (saved_us(use, reached) for reached in REACHED)
        low_us += least if sure == 1.0 else 0.0
        likely_us += sure * usual
        high_us += most if sure == 1.0 else max(sure * most, min(most, use.us * (1.0 - bytes_left)))
    return low_us / total_us, likely_us / total_us, high_us / total_us


@fact
def narrowed_doubles(
    kernels: KernelFacts | Missing | None, peak: DevicePeak | Missing | None, settings: Tf32Settings
) -> NarrowedDoubles:
    """What goes if all that computes in float64 does so in float32, or in TF32 where that is allowed."""
    if not isinstance(kernels, KernelFacts) or not isinstance(peak, DevicePeak):
        return NarrowedDoubles(None)
    wide = [use for use in kernels.kernels if use.dtype == "float64"]
    heavy = {kind: sum(use.us for use in wide if use.kind is kind) for kind in HEAVY}
    parts = [(kernels.scale * (sum(use.us for use in wide) - sum(heavy.values())), MOVED)]
    for kind, us in heavy.items():
        allowed = settings.convolutions if kind is KernelClass.CONVOLUTION else settings.products
        dtype = "tf32" if allowed and "tf32" in peak.flops_per_s else "float32"
        known = [use for use in kernels.work if use.kind is kind and use.dtype == "float64"]
        far = [use for use in known if is_far(use, peak)]  # the rate of doubles is of other kernels
        near = gone([use for use in known if use not in far], peak, dtype, HALF) or UNKNOWN
        parts += [
            (kernels.scale * us * (1.0 - part_of(far, known)), near),
            (kernels.scale * us * part_of(far, known), UNKNOWN),
        ]
    low, likely, high = (min(1.0, sum(share * part[case] for share, part in parts)) for case in range(3))
    return NarrowedDoubles((low, likely, high) if wide else None)
