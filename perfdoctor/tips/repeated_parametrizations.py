"""A parametrized weight is made anew at each access, although what it is made of stays the same.

## What it sees
`torch.nn.utils.parametrizations` (orthogonal, weight_norm) and `parametrize.register_parametrization`
compute the weight whenever a layer reads it: in a loop over time steps, once for each of them. In steps
sampled call by call, such computations came again before the next backward and made the same; their lines
are named. Backward goes through each of them. One for each backward, as with accumulated gradients, is
needed: backward frees the graph that it goes through.

## By hand
    from torch.nn.utils import parametrize

    with parametrize.cached():          # around one forward pass, not around several backwards or the update
        output = model(x)

## When not
Where the parametrization draws random numbers or remembers something, as spectral_norm does while training.
"""

from __future__ import annotations

from perfdoctor.facts.script.module_calls import RepeatedCallFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.03  # share of the step
MOSTLY = 0.5  # of the sampled steps: fewer are exceptions
# Times a forward, at the most: each product has two gradients, and that of a matrix exponential is one of
# twice the size.
BACKWARD = 4.0
SHOWN = 3  # lines named


@tip(
    title="Compute parametrized weights once a step",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def repeated_parametrizations(run: RunFacts, step: StepFacts, repeats: RepeatedCallFacts) -> Advice | None:
    """Advises parametrize.cached() where a step makes the same weights several times."""
    found = [one for one in repeats.repeats if one.parametrizes and one.seen >= MOSTLY]
    share = min(1.0, sum(one.share for one in found))
    if share < NOTICEABLE:
        return None
    times = sum(one.count for one in found)
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    recorded = sum(one.share for one in found if one.recording) / share
    # each is differentiated as well, for about as long as what else the forward pass computes
    with_them = recorded * share * min(BACKWARD, backward / forward) if forward > 0 else 0.0
    most = min(1.0, share + min(recorded * BACKWARD * share, backward))
    top = found[0].again
    text = f": `{top.text}`" if top.text else ""
    return Advice(
        because=(
            f"a step recomputes parametrized weights {times:,.0f} times although they have not changed",
            f"that takes {share:.1%} of the step, and backward through each of them as well",
            f"line {top.line} takes the most{text}",
        ),
        # a device may have other work meanwhile: there the share is of the host's time
        change=removes(0.0 if run.on_device else share, min(most, share + with_them), most),
        at=tuple(one.again for one in found)[:SHOWN],
        code="with torch.nn.utils.parametrize.cached():\n    output = model(x)",
    )
