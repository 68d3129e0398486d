"""Figures with the unit that fits, and numbers of things."""

from __future__ import annotations

LEAST_WRITTEN = 0.005  # smaller figures would be rounded to 0


def figures(value: float) -> str:
    """Three significant figures, no exponent, thousands apart: `0.15`, `37.2`, `1,049`; never a rounded 0."""
    if value and abs(value) < LEAST_WRITTEN:
        return "<0.01" if value > 0 else ">-0.01"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def seconds(value_s: float) -> str:
    """A duration with three figures and the unit that fits: `37.2 ms`."""
    for unit, size_s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value_s) >= 0.9995 * size_s:  # 0.9996 ms is written 1 ms
            return f"{figures(value_s / size_s)} {unit}"
    return "0 s" if not value_s else f"{figures(value_s / 1e-9)} ns"


def size(value_bytes: float) -> str:
    """An amount of bytes with three figures and the unit that fits: `116 MB`."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value_bytes >= 0.9995 * one:
            return f"{figures(value_bytes / one)} {unit}"
    return f"{figures(value_bytes)} B"


def operations(flops: float) -> str:
    """Floating-point operations with three figures and the unit that fits: `5.07 GFLOP`."""
    for unit, one in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if flops >= 0.9995 * one:
            return f"{figures(flops / one)} {unit}"
    return f"{figures(flops / 1e3)} kFLOP"


def count(number: int, noun: str) -> str:
    """`1 step`, `1,200 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def every(number: float, noun: str, digits: int = 0) -> str:
    """`every step`, `every 1,200 steps`."""
    text = f"{number:,.{digits}f}"
    return f"every {noun}" if float(text.replace(",", "")) == 1 else f"every {text} {noun}s"
