"""Tells whether power limit or heat held an accelerator back while it computed: HeldClockFacts."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.decode import Json, number, positive
from perfdoctor.facts.host.resources import UsedDevices
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass

COMPUTING = 0.5  # of the time before a sample a kernel ran: an idle device lowers its clock by itself
ENOUGH = 10  # such samples, one a second: in fewer the device is still warming up
POWER = {"power cap"}
HEAT = {"temperature (software)", "temperature (hardware)", "hardware slowdown", "power brake"}


@dataclass(frozen=True)
class HeldClockFacts:
    """Of the accelerators, the one that was held back most, in the samples in which it computed."""

    name: str
    samples: int
    heat: float  # share of the samples in which heat, or the hardware's protection, held it back
    power: float  # in which its power limit did
    clock_mhz: float  # mean
    top_mhz: float  # the highest that it has
    computing: float  # share of the time that a kernel ran
    temperature_c: float | None = None  # the highest
    power_limit_w: float | None = None

    @property
    def lost(self) -> float:
        """The share of its top clock that it does not reach."""
        return max(0.0, 1.0 - self.clock_mhz / self.top_mhz)


@fact
def held_clock_facts(devices: UsedDevices) -> HeldClockFacts | None:
    """How far the accelerators were held back, or None where none was, or too few samples tell."""
    found = [_of_device(rows) for rows in devices.values()]
    return max((each for each in found if each is not None), key=lambda each: each.lost, default=None)


def _of_device(rows: Sequence[Json]) -> HeldClockFacts | None:
    used = [row for row in rows if row.get("utilisation") is not None]
    told = [row for row in used if number(row["utilisation"]) >= COMPUTING and _is_told(row)]
    if len(told) < ENOUGH:
        return None

    def share(reasons: set[str]) -> float:
        return sum(not reasons.isdisjoint(row["throttle"]) for row in told) / len(told)

    heat, power = share(HEAT), share(POWER)
    if not heat and not power:
        return None
    return HeldClockFacts(
        name=str(told[-1].get("name") or "accelerator"),
        samples=len(told),
        heat=heat,
        power=power,
        clock_mhz=sum(number(row["sm_clock_mhz"]) for row in told) / len(told),
        top_mhz=max(number(row["sm_clock_max_mhz"]) for row in told),
        computing=min(1.0, sum(number(row["utilisation"]) for row in used) / len(used)),
        temperature_c=max((t for row in told if (t := positive(row.get("temperature_c")))), default=None),
        power_limit_w=positive(told[-1].get("power_limit_w")),
    )


def _is_told(row: Json) -> bool:
    clocks = positive(row.get("sm_clock_mhz")), positive(row.get("sm_clock_max_mhz"))
    return isinstance(row.get("throttle"), list) and None not in clocks
