"""A tensor is made on the host and sent to the device in every step, where the device could make it itself.

## What it sees
An operator such as `torch.zeros` or `torch.randn` makes a tensor of as many elements as the next operator
copies to the device; the trace shows how long the device idles meanwhile, and the copy that nothing hides.

## By hand
    noise = torch.randn(batch, 128, device=device)     # not: torch.randn(batch, 128).to(device)

## When not
A tensor that never changes is better made once, before the loop. Random numbers of the device differ from
those of the host under the same seed."""

from __future__ import annotations

import re

from perfdoctor.analysis.device import CopyFacts, at_line
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
REPEATED = 5  # tensors, where no step is marked: fewer are set-up
SURE = 0.5  # of what goes, if the host is late for other reasons too
SHOWN = 3  # lines named
RANDOM = re.compile(r"rand|normal_|uniform_|bernoulli_|exponential_")  # operators that draw numbers


@tip(
    title="Make tensors on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def tensors_created_on_host(copies: CopyFacts) -> Advice | None:
    """device=..., where making and copying tensors keeps the device waiting."""
    made = [site for site in copies.sites if site.made_by and site.count >= (copies.files_steps or REPEATED)]
    made.sort(key=lambda site: -(site.exposed_us + site.idle_us))
    copying, making = (
        copies.per_us * sum(us)
        for us in ([site.exposed_us for site in made], [site.idle_us for site in made])
    )
    share = min(1.0, copying + making)
    if share < NOTICEABLE:
        return None
    operators = ", ".join(dict.fromkeys(f"{site.made_by}{at_line(site.at)}" for site in made[:SHOWN]))
    return Advice(
        because=(
            f"{sum(site.count for site in made):,} tensors are made on the host and copied to the device",
            f"the device idles {min(1.0, making):.1%} of the time meanwhile",
            f"and copies them for {min(1.0, copying):.1%} of it, hidden by nothing",
            f"made by {operators}",
        ),
        change=removes(SURE * share, share, share),
        at=tuple(dict.fromkeys(site.at for site in made if site.at is not None))[:SHOWN],
        same_result=not any(RANDOM.search(site.made_by or "") for site in made),
        code="torch.zeros(size, device=device)  # as torch.randn, torch.full, ...",
    )
