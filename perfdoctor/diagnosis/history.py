"""How well the gains that a machine's trials measured were predicted, and the ranges that they ask for.

Ranges are fitted by the method of perfdoctor.diagnosis.calibration, to this machine's cases alone: they are
more like the next one than those of other machines. A case is a change of a script, by its newest trial: ten
trials of one change are no ten cases. One that acts on several classes of time tells of none of them alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from perfdoctor.diagnosis.calibration import Case, fit
from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.history import History, TriedChange, TriedKind
from perfdoctor.model.widening import Widening

CASES = 10  # of a kind, before a machine's own stand for it: one more than the method can do with

Table = Mapping[Bottleneck, Widening]
Kind = tuple[tuple[Bottleneck, ...], str]  # classes of time, device


def history(path: str, changes: Sequence[TriedChange], unread: int = 0) -> History:
    """All that changes, the oldest first, tell together."""
    fits = fitted(changes)
    kinds = tuple(_kind(kind, some, fits) for kind, some in _by_kind(changes).items())
    return History(path, tuple(reversed(changes)), kinds, unread)


def fitted(changes: Iterable[TriedChange]) -> dict[str, Table]:
    """The widening of each kind that has enough cases, by device."""
    fits: dict[str, dict[Bottleneck, Widening]] = defaultdict(dict)
    for (acts_on, device), some in _by_kind(changes).items():
        if len(acts_on) == 1 and len(some) >= CASES:
            (kind,) = acts_on
            fits[device][kind], _ = fit([_case(kind, change) for change in some])
    return dict(fits)


def _case(kind: Bottleneck, change: TriedChange) -> Case:
    # What a tweak can change is a setting.
    return Case(kind, Effort.FLAG, " ".join(change.tweaks), change.modelled, change.measured.likely)


def _by_kind(changes: Iterable[TriedChange]) -> dict[Kind, list[TriedChange]]:
    """The cases of each kind."""
    newest = {
        (change.script_id, change.device, frozenset(change.tweaks)): change
        for change in changes
        if change.is_judged
    }
    kinds: dict[Kind, list[TriedChange]] = defaultdict(list)
    for change in newest.values():
        kinds[change.acts_on, change.device].append(change)
    return {kind: kinds[kind] for kind in sorted(kinds, key=_place)}


def _place(kind: Kind) -> tuple[str, int, list[int]]:
    """Where a kind is listed: by device, single classes first."""
    acts_on, device = kind
    return device.lower(), len(acts_on), [*map(list(Bottleneck).index, acts_on)]


def _kind(kind: Kind, cases: Sequence[TriedChange], fits: Mapping[str, Table]) -> TriedKind:
    acts_on, device = kind
    return TriedKind(
        acts_on,
        device,
        len(cases),
        fmean(case.is_covered for case in cases),
        median(case.step_error for case in cases),
        len(acts_on) == 1 and acts_on[0] in fits.get(device, {}),
    )
