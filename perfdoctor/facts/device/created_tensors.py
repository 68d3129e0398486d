"""Tensors that every step creates on the host to copy them to the device: CreatedTensors."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.device.device import CopyFacts, DeviceFacts
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Phase, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.trace.results import CopySite

REPEATED = 5  # tensors, where no step is marked: fewer are set-up


@dataclass(frozen=True)
class CreatedTensors:
    """Where they are created, what the device waits for most first. Shares are of the step.

    A window slows what surrounds the creating and not the creating itself: stack samples tell its share where
    they saw those lines.
    """

    sites: tuple[CopySite, ...] = ()
    copying: float = 0.0  # copies that nothing hides
    creating: float = 0.0  # the device idles meanwhile, by the window, less what its profiler adds
    in_loop: tuple[LineCost, ...] = ()  # the lines between the phases that create them, as sampled
    in_copies: tuple[LineCost, ...] = ()  # the same lines while they copy
    idles: float = 1.0  # the device idles, or waits for a copy, for so long in all: no more than that goes

    def at(self, line: LineCost) -> bool:
        """Whether a line creates one of them."""
        return any(
            site.at is not None and (site.at.file, site.at.line) == (line.at.file, line.at.line)
            for site in self.sites
        )


@fact
def created_tensors(
    step: StepFacts,
    copies: CopyFacts | Missing | None,
    stacks: StackFacts | Missing,
    device: DeviceFacts | Missing | None,
) -> CreatedTensors:
    """Those that a window saw; none where there is no window, or no device."""
    if not isinstance(copies, CopyFacts):
        return CreatedTensors()
    found = of_copies(copies)
    between, copying = (
        tuple(line for line in stacks.phases.get(phase, ()) if found.at(line))
        if isinstance(stacks, StackFacts)
        else ()
        for phase in (Phase.OTHER, Phase.HOST_TO_DEVICE)
    )
    idles = sum(device.idle.values()) + device.exposed_copy if isinstance(device, DeviceFacts) else 1.0
    return replace(found, in_loop=between, in_copies=copying, idles=idles)


def of_copies(copies: CopyFacts) -> CreatedTensors:
    """Those that a trace tells, without stack samples."""
    repeated = copies.judged_steps or REPEATED
    sites = [
        replace(site, idle_us=copies.unprofiled * site.idle_us)
        for site in copies.sites
        if site.made_by and site.count >= repeated
    ]
    sites.sort(key=lambda site: -(site.exposed_us + site.idle_us))
    return CreatedTensors(
        sites=tuple(sites),
        copying=min(1.0, copies.per_us * sum(site.exposed_us for site in sites)),
        creating=min(1.0, copies.per_us * sum(site.idle_us for site in sites)),
    )
