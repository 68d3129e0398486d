"""The rates that trainers quote of a training."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class TrainingRates:
    """Of one process, in its mean step. What is not known is None, and `unknown` says why."""

    samples_per_s: float | None
    tokens_per_s: float | None  # positions in rows of integers, padding included
    token_width: float | None  # positions of such a row, in the mean
    flops_per_step: float | None  # of products, convolutions and attention, by the shapes of a window
    flops_per_s: float | None
    peak_flops_per_s: float | None  # of the device, for the number types that it computed with
    flops_utilisation: float | None  # model FLOPs utilisation: flops_per_s as a share of the peak
    how: tuple[str, ...] = ()  # how each was computed, a phrase each
    unknown: tuple[str, ...] = ()

    @property
    def is_told(self) -> bool:
        """Whether there is more than samples to quote."""
        return bool(self.tokens_per_s or self.flops_per_s)
