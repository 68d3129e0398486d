"""The rates that trainers quote, in a line."""

from __future__ import annotations

from perfdoctor.model.rates import TrainingRates
from perfdoctor.render import text

UNITS = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6))


def line(rates: TrainingRates) -> str:
    """What is known, and of the rest that it is not."""
    tokens = f"{text.figures(rates.tokens_per_s)} tokens/s" if rates.tokens_per_s else ""
    done = f"{flops(rates.flops_per_s)}/s" if rates.flops_per_s else "FLOP/s not known"
    share = "MFU not known"
    if rates.flops_utilisation is not None and rates.peak_flops_per_s:
        share = f"MFU {text.percent(rates.flops_utilisation)} of {flops(rates.peak_flops_per_s)}/s"
    return f"rates: {', '.join(part for part in (tokens, done, share) if part)}"


def explained(rates: TrainingRates) -> tuple[str, ...]:
    """How each rate was computed, and why another one is not known."""
    return (*rates.how, *(f"not known: {what}" for what in rates.unknown))


def flops(count: float) -> str:
    """Operations in the largest unit of which there are some."""
    unit, one = next(((unit, one) for unit, one in UNITS if count >= one), ("", 1.0))
    return f"{text.figures(count / one)} {unit}FLOP"
