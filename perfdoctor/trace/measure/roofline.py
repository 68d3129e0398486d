"""Compares kernels with the device's limits (Williams, Waterman, Patterson: Roofline, CACM 2009)."""

from __future__ import annotations

from perfdoctor.trace.results import ClassUse, DevicePeak, Roof


def roofs(classes: tuple[ClassUse, ...], peak: DevicePeak | None) -> tuple[Roof, ...]:
    """The classes whose operations are known. Shares are None where the device's limit is not."""
    return tuple(_roof(use, peak) for use in classes if use.flops is not None)


def _roof(use: ClassUse, peak: DevicePeak | None) -> Roof:
    """One class. Bytes are what must move at least, so their share is a lower bound."""
    dtype = next(iter(use.dtypes), None)
    most_flops = peak.flops_per_s.get(dtype) if peak and dtype else None
    flops_per_s = use.flops / use.flops_us * 1e6 if use.flops is not None and use.flops_us else None
    bytes_per_s = use.bytes / use.bytes_us * 1e6 if use.bytes is not None and use.bytes_us else None
    flops_share = flops_per_s / most_flops if flops_per_s is not None and most_flops else None
    bytes_share = bytes_per_s / peak.bytes_per_s if bytes_per_s is not None and peak else None
    shares = {"compute": flops_share, "memory": bytes_share}
    known = {limit: share for limit, share in shares.items() if share is not None}
    bound = max(known, key=lambda limit: known[limit]) if len(known) == len(shares) else None
    return Roof(
        kind=use.kind,
        dtype=dtype,
        flops_per_s=flops_per_s,
        flops_share=flops_share,
        bytes_per_s=bytes_per_s,
        bytes_share=bytes_share,
        bound=bound,
        least_us=use.flops_us * known[bound] if bound else None,
    )
