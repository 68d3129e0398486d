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
from collections.abc import Sequence

from perfdoctor.facts.device.created_tensors import CreatedTensors
from perfdoctor.facts.device.device import at_line
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import LineCost, Phase
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SURE = 0.5  # of what goes, if the host is late for other reasons too
SHOWN = 3  # lines named
SEEN = 5  # samples in those lines: fewer may be chance
RANDOM = re.compile(r"rand|normal_|uniform_|bernoulli_|exponential_")  # operators that draw numbers


@tip(
    title="Create tensors on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def tensors_created_on_host(created: CreatedTensors) -> Advice | None:
    """Advises device=... where creating and copying tensors keeps the device waiting."""
    sites, idles = created.sites, max(0.0, created.idles - created.copying)
    on_host = _sampled(created.in_loop)
    sampled = min(on_host, idles)
    creating = max(min(created.creating, idles), sampled)
    copying = max(created.copying, min(_sampled(created.in_copies), created.idles - creating))
    share = min(1.0, copying + creating)
    if share < NOTICEABLE:
        return None
    operators = ", ".join(dict.fromkeys(f"{site.made_by}{at_line(site.at)}" for site in sites[:SHOWN]))
    meanwhile = f"the device idles {creating:.1%} of the time meanwhile"
    if sampled > created.creating:
        meanwhile = f"{sampled:.1%} of the time goes into creating them"
    return Advice(
        because=(
            f"{sum(site.count for site in sites):,} tensors are created on the host and copied to the device",
            meanwhile,
            f"their copies take {copying:.1%} that nothing hides",
            f"created by {operators}",
        ),
        # a host that is done sooner by more than the device idles is late for no other reason
        change=removes(min(share, SURE * max(share, on_host)), share, share),
        at=tuple(dict.fromkeys(site.at for site in sites if site.at is not None))[:SHOWN],
        same_result=not any(RANDOM.search(site.made_by or "") for site in sites),
        code="torch.zeros(size, device=device)  # also torch.randn, torch.full, ...",
        bottleneck=_creating_class(created, sampled) if creating > copying else None,
        also=(Bottleneck.TRANSFER,) if creating > copying else (),
    )


def _creating_class(created: CreatedTensors, sampled: float) -> Bottleneck:
    """What creating them is charged to: by its line or, where no sample saw one, to the host that is late."""
    return class_of(Phase.OTHER, created.in_loop[0].kind) if sampled > 0 else Bottleneck.HOST


def _sampled(lines: Sequence[LineCost]) -> float:
    """The share of the step that stack samples saw in these lines; 0 where too few tell."""
    if sum(line.samples for line in lines) < SEEN:
        return 0.0
    return min(1.0, sum(line.share for line in lines))
