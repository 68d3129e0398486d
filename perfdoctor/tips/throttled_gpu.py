"""An accelerator computes at a lower clock all along, held back by heat or by a low power limit.

## What it sees
In samples in which the device computed, NVML named heat, the hardware's protection or the power limit as what
holds the clock down, and the mean clock was below the highest. A power limit counts only where it takes a
large part of the clock: at its usual limit a device lowers its clock a little under heavy products.

## By hand
    nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE    # what holds the clock down, and the limits
    sudo nvidia-smi -pl 700                                 # a power limit that somebody has lowered

Against heat: free the air inlets, let fans run faster, move the job to a cooler machine.

## When not
Where whoever runs the machine has lowered the limit on purpose. Kernels that wait for memory gain little from
a higher clock of the multiprocessors.
"""

from __future__ import annotations

from perfdoctor.facts.device.held_clock import HeldClockFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip

THROUGHOUT = 0.5  # of the samples: what holds the clock down for less than half of the time comes and goes
BY_HEAT = 0.05  # of the clock: less is a step or two
# Of the clock. Under large products a device at the limit that it is sold with gives up a quarter, or a third
# in its cards for slots: that is how it works.
BY_POWER = 0.4


@tip(
    title="Let the accelerator run at its full clock",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("gpu",),
)
def throttled_gpu(held: HeldClockFacts) -> Advice | None:
    """Says what holds the clock down, where it does so throughout."""
    hot = held.heat >= THROUGHOUT and held.lost >= BY_HEAT
    capped = held.power >= THROUGHOUT and held.lost >= BY_POWER
    if not hot and not capped:
        return None
    clocks = f"{held.clock_mhz:,.0f} MHz in the mean, of at most {held.top_mhz:,.0f}"
    at_most = held.computing * held.lost  # if every kernel is bound by the clock
    return Advice(
        because=(
            f"{held.name}: {clocks}, in {held.samples:,} samples in which it computed",
            _reason(held) if hot else _limit(held),
        ),
        change=removes(0.0, at_most / 2, at_most),
    )


def _reason(held: HeldClockFacts) -> str:
    heated = f"; it reached {held.temperature_c:.0f} °C" if held.temperature_c is not None else ""
    return f"heat, or the hardware's protection, held it back in {held.heat:.0%} of them{heated}"


def _limit(held: HeldClockFacts) -> str:
    limit = f" of {held.power_limit_w:.0f} W" if held.power_limit_w is not None else ""
    return f"its power limit{limit} held it back in {held.power:.0%} of them"
