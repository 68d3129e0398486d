"""Autoregressive generation without a key/value cache computes its whole prefix again for each new token.

## What it sees
Calls of a model without gradients or in eval mode, eight or more in a row, each on the input of the call
before and one place more. Their time is measured; how it grows with the length tells what calls on the new
token alone would take. A window that is cropped to the longest context (`idx[:, -block_size:]`) no longer
grows, and is not counted. On a device inputs are not compared, which would wait for it: whole numbers that
grow so often in a row are taken for a text, and what the calls take on the host for their time.

## By hand
With transformers, the cache is on unless something switches it off, often for gradient checkpointing, which
only training needs:

    model.generate(..., use_cache=True)  # or model.generation_config.use_cache = True before evaluating

In a loop of one's own, keep the keys and values of each layer, and call the model on the last token only:

    logits, cache = model(prompt)
    for _ in range(length):
        token = choose(logits[:, -1:])
        logits, cache = model(token, cache)  # attention: k = torch.cat([cache.k, k], dim=1), v likewise

For positions, pass how many tokens came before. A recurrent network keeps its hidden state the same way.

## When not
Where each new token changes what was computed for all before it: attention that is not causal.
"""

from __future__ import annotations

from perfdoctor.facts.script.repeated_prefixes import RepeatedPrefixesFacts
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
# Of what goes by the line through the calls' times: with a cache, a call still attends to the prefix, and
# copies the cache to add to it.
GONE = (0.7, 0.9, 1.0)
# By shapes alone, other texts whose lengths grow by one have nothing to save; and of the host's time for a
# device that is not waited for, calls on one token take as much.
GONE_BY_SHAPES = (0.0, GONE[0], GONE[2])
SHOWN = 3  # lines named


@tip(
    title="Generate with a key/value cache",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def repeated_prefixes(step: StepFacts, prefixes: RepeatedPrefixesFacts) -> Advice | None:
    """Advises a cache where computing prefixes again takes a noticeable share of the run."""
    low, likely, high = (prefixes.again * gone for gone in (GONE_BY_SHAPES if prefixes.by_shapes else GONE))
    if likely < NOTICEABLE:
        return None
    goes = Estimate(low, likely, high)
    calls, longest = f"{prefixes.calls_per_run:,.0f}", f"{prefixes.longest:,}"
    taken, left = prefixes.share, prefixes.share * prefixes.left
    because = [
        f"{calls} calls of a model in a row, each on one place more than the last, up to {longest}",
        f"they take {taken:.0%} of the training time; on the new place alone they would take {left:.0%}",
    ]
    if prefixes.by_shapes:
        because.append(
            "that each goes on from the last is told by shapes: on a device inputs are not compared"
        )
    return Advice(
        because=tuple(because),
        change=Change(pauses=goes) if prefixes.pauses else Change(step=goes),
        at=tuple(dict.fromkeys((*prefixes.off, *prefixes.at)))[:SHOWN],
        code=_code(prefixes.generates),
    )


def _code(generates: bool) -> str:
    if generates:
        return "model.generation_config.use_cache = True  # or model.generate(..., use_cache=True)"
    return "logits, cache = model(token, cache)  # the last token only; keys and values are kept in the cache"
