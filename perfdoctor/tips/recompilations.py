"""torch.compile compiles the same function again and again, or has given up on it.

## What it sees
torch's own account of its compilations: the same piece of code compiled for the third time or more while
training, because something that it had taken for constant changed: the size of an input, a number kept on the
module, a function that is passed in. After eight times (`torch._dynamo.config.recompile_limit`) torch gives
up, and the function runs as it is written: all that compiling is then for nothing.

## By hand
    model = torch.compile(model, dynamic=True)     # sizes change from batch to batch
    self.register_buffer("calls", torch.zeros(()))  # a number that changes becomes a tensor,
    scale = torch.tensor(scale)                     # or stays outside of what is compiled

Few sizes are better than many: pad to a multiple of 64, and drop the last, smaller batch (`drop_last=True`).
`TORCH_LOGS=recompiles` prints every reason as it happens.

## When not
Two compilations of a function are usual: one for training and one for validation, or a second one that allows
any size. The longer a run, the less it matters; and the next start finds most of it in the compiler's cache,
if that is kept (`TORCHINDUCTOR_CACHE_DIR`): so the predicted gain counts on what has to be traced anew. A
trial compares settled steps, of which none compiles: it tells whether compiled code is faster at all.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from perfdoctor.facts.script.compiling import CompiledAgain, CompilingFacts
from perfdoctor.facts.user_source.parse import parsed_line
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import PAUSES, Location, Phase
from perfdoctor.tips.catalogue import Checked, tip

USUAL = 1  # of another compilation for the same code: any size instead of one, or validation beside training
NOTICEABLE = 0.02  # share of the time from the first step to the last
SIZES = "size mismatch"
VALUE = "a number that changes costs no compilation if it is a tensor, or stays outside of what is compiled"


@tip(
    title="Keep torch.compile from compiling the same function again",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def recompilations(compiling: CompilingFacts) -> Advice | None:
    """Says what is compiled again and why, where that takes noticeable time or ends in giving up."""
    unusual = [again for again in compiling.again if again.times > USUAL or again.given_up]
    if not unusual or compiling.span_s <= 0:
        return None
    again_s = sum(again.seconds for again in unusual)
    at_most, lasting = _shares(unusual, once=False), _shares(unusual, once=True)
    share = sum(at_most.values())
    if share < NOTICEABLE and not any(again.given_up for again in unusual):
        return None
    first = max(unusual, key=lambda again: (again.given_up, again.seconds))
    return Advice(
        because=(*_told(first), *_others(unusual, again_s, compiling.span_s, at_most)),
        change=_change(at_most, lasting) if sum(lasting.values()) >= NOTICEABLE else None,
        start_s=again_s if share >= NOTICEABLE else None,
        at=_places(first, compiling),
        tweak="--no-compile",
        same_result=False,
        code=_code(first, compiling),
    )


def _shares(unusual: Sequence[CompiledAgain], once: bool) -> dict[Phase, float]:
    """The share of the step that compiling takes from each phase; `once`: that surely goes."""
    shares: defaultdict[Phase, float] = defaultdict(float)
    for again in unusual:
        part = _lasting(again) if once else 1.0
        for phase, share in again.shares:
            shares[phase] += part * share
    return dict(shares)


def _lasting(again: CompiledAgain) -> float:
    """The part that the next start takes for it, too, less one compilation that allows for what changes."""
    anew = max(0.0, 1.0 - again.kept_s / again.seconds) if again.seconds > 0 else 0.0
    return anew * (1.0 - 1.0 / max(1, again.times))


def _change(at_most: Mapping[Phase, float], lasting: Mapping[Phase, float]) -> Change:
    """What goes: from the phases of training, and apart from those beside which batches are prepared on."""
    beside = {phase for phase in at_most if phase in PAUSES}
    return Change(
        step=_estimate(at_most, lasting, at_most.keys() - beside),
        pauses=_estimate(at_most, lasting, beside),
        is_once=True,
    )


def _estimate(
    at_most: Mapping[Phase, float], lasting: Mapping[Phase, float], phases: Collection[Phase]
) -> Estimate:
    likely, high = (sum(shares[phase] for phase in phases) for shares in (lasting, at_most))
    high = min(1.0, high)
    likely = min(likely, high)
    return Estimate(likely / 2, likely, high)


def _told(again: CompiledAgain) -> list[str]:
    """How often, and what had been taken for constant."""
    name = f"`{again.name}`" if again.name is not None else "a function"
    told = [f"{name} was compiled {again.times + 1} times"]
    if again.broken:
        more = f" and {len(again.broken) - 1} more" if len(again.broken) > 1 else ""
        told.append(f"each time because something changed: {again.broken[0]}{more}")
    if again.given_up:
        told.append("then torch gave up: it runs uncompiled since")
    if again.broken and again.at is not None and not _is_size(again):
        told.append(VALUE)
    return told


def _others(
    unusual: list[CompiledAgain], again_s: float, span_s: float, at_most: Mapping[Phase, float]
) -> list[str]:
    pieces = f" of {len(unusual)} pieces of code" if len(unusual) > 1 else ""
    kept_s = sum(again.kept_s for again in unusual)
    kept = f"; the next start finds {kept_s:.1f} s of it in the compiler's cache" if kept_s >= 0.1 else ""
    share = min(1.0, again_s / span_s)
    took = f"compiling again{pieces} took {again_s:.1f} s, {share:.1%} of the time from first step to last"
    phases = [
        phase.value for phase in sorted(at_most, key=lambda phase: -at_most[phase]) if at_most[phase] > 0
    ]
    return [f"{took}{', in ' + ' and '.join(phases) if phases else ''}{kept}"]


def _is_size(again: CompiledAgain) -> bool:
    return any(SIZES in guard for guard in again.broken[:1])


def _places(again: CompiledAgain, compiling: CompilingFacts) -> tuple[Location, ...]:
    """Where to change something: the guarded line; for sizes, the call of torch.compile."""
    calls = compiling.calls[:1] if _is_size(again) or again.at is None else ()
    places = (again.at, *calls, again.function)
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _code(again: CompiledAgain, compiling: CompilingFacts) -> str | None:
    """The script's own call of torch.compile, for any size."""
    if not _is_size(again):
        return None
    text = compiling.calls[0].statement if compiling.calls else None
    tree = parsed_line(text)
    line = (text or "").encode()  # in which the parser counts
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.compile" and _is_open(node):
            node.keywords.append(ast.keyword("dynamic", ast.Constant(True)))
            whole = line[: node.col_offset], ast.unparse(node).encode(), line[node.end_col_offset :]
            return b"".join(whole).decode()
    return "model = torch.compile(model, dynamic=True)"


def _is_open(call: ast.Call) -> bool:
    """Whether a call says nothing about sizes yet."""
    return all(word.arg not in {None, "dynamic"} for word in call.keywords)
