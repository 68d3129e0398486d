"""Every step creates a tensor on the host and copies it to the device, which could create it itself.

## What it sees
An operator such as `torch.zeros` or `torch.randn` creates a tensor of as many elements as the next operator
copies to the device; the trace shows how long the device idles meanwhile, and how long the exposed copy
takes.

## By hand
    noise = torch.randn(batch, 128, device=device)     # not: torch.randn(batch, 128).to(device)

## When not
A tensor that never changes is better created once, before the loop. The device's random numbers differ from
the host's under the same seed.
"""

from __future__ import annotations

import re

from perfdoctor.facts.device.device import CopyFacts, at_line
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
REPEATED = 5  # tensors, where no step is marked: fewer are set-up
SURE = 0.5  # of what goes, if the host is late for other reasons too
SHOWN = 3  # lines named
RANDOM = re.compile(r"rand|normal_|uniform_|bernoulli_|exponential_")  # operators that draw numbers


@tip(
    title="Create tensors on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def tensors_created_on_host(copies: CopyFacts) -> Advice | None:
    """Advises device=... where creating and copying tensors keeps the device waiting."""
    sites = [
        site for site in copies.sites if site.made_by and site.count >= (copies.judged_steps or REPEATED)
    ]
    sites.sort(key=lambda site: -(site.exposed_us + site.idle_us))
    copying, creating = (
        copies.per_us * sum(us)
        for us in ([site.exposed_us for site in sites], [site.idle_us for site in sites])
    )
    share = min(1.0, copying + creating)
    if share < NOTICEABLE:
        return None
    operators = ", ".join(dict.fromkeys(f"{site.made_by}{at_line(site.at)}" for site in sites[:SHOWN]))
    return Advice(
        because=(
            f"{sum(site.count for site in sites):,} tensors are created on the host and copied to the device",
            f"the device idles {min(1.0, creating):.1%} of the time meanwhile",
            f"their exposed copies take {min(1.0, copying):.1%}",
            f"created by {operators}",
        ),
        change=removes(SURE * share, share, share),
        at=tuple(dict.fromkeys(site.at for site in sites if site.at is not None))[:SHOWN],
        same_result=not any(RANDOM.search(site.made_by or "") for site in sites),
        code="torch.zeros(size, device=device)  # also torch.randn, torch.full, ...",
    )
