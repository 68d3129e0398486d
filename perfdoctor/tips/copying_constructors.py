"""Lists and arrays are copied into new tensors, element by element or as a whole.

## What it sees
Lines that only call `torch.tensor(...)` (or `FloatTensor(...)`) on existing data take a noticeable share: of
the step, in the training loop, or of a batch that the step waits for, in the dataset.

## By hand
    x = torch.from_numpy(array)            # shares the array's memory
    x = torch.as_tensor(array)             # the same, and also accepts lists
    x = torch.from_numpy(np.stack(rows))   # a list of arrays: copied array by array, not element by element
    same = ids[:, None] == ids[None, :]    # a list computed from tensors: compute the tensor instead

## When not
`from_numpy` shares memory: if the array is modified later, so is the tensor. In that case keep
`torch.tensor`, but call it on one array instead of a list.
"""

from __future__ import annotations

from perfdoctor.facts.data.copy_lines import CopyLines
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import LineCost, Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
WAITED = 0.10  # share of the step that waits for batches: below it, what they cost does not matter
OF_BATCH = 0.20  # of a batch's cost
SEEN = 5  # samples of such lines: fewer could be chance
# What is left: a list of numbers is still read one by one, an array is not copied at all, a list of arrays
# is copied block by block in place of element by element.
KEPT = (0.8, 0.2, 0.02)


@tip(
    title="Create tensors from arrays without copying",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def copying_constructors(step: StepFacts, copied: CopyLines) -> Advice | None:
    """Names the lines that copy, where they take a large share of the step or of batches it waits for."""
    late = step.share(Phase.DATA_WAIT) >= WAITED
    in_loop, in_batch = _share(copied.in_loop, NOTICEABLE), _share(copied.in_batch, OF_BATCH) if late else 0.0
    if not in_loop and not in_batch:
        return None
    lines = (copied.in_loop if in_loop else ()) + (copied.in_batch if in_batch else ())
    because = []
    if in_loop:
        because.append(f"{in_loop:.0%} of each step copies data into new tensors in the training loop")
    if in_batch:
        wait = step.share(Phase.DATA_WAIT)
        because.append(
            f"{in_batch:.0%} of a batch's cost is such copying; {wait:.0%} of each step waits for batches"
        )
    top = lines[0]
    # The time that goes is that of the class which the line is charged to, not always that of data.
    loop = zip(copied.phases, copied.in_loop, strict=True) if in_loop else ()
    of_loop = [class_of(phase, line.kind) for phase, line in loop]
    classes = dict.fromkeys((*of_loop, *([Bottleneck.DATA] if in_batch else [])))
    return Advice(
        because=(
            *because,
            f"line {top.at.line} takes the most" + (f": `{top.at.text}`" if top.at.text else ""),
        ),
        change=Change(step=_gone(in_loop), batch=_gone(in_batch)),
        at=tuple(line.at for line in lines[:3]),
        bottleneck=next(iter(classes)),
        also=tuple(classes)[1:],
        code="torch.as_tensor(data)  # copies no array and no tensor; a list of arrays: "
        "torch.from_numpy(np.stack(rows))",
    )


def _share(lines: tuple[LineCost, ...], least: float) -> float:
    """The share the lines take together; 0 if it is below `least` or has too few samples."""
    share = min(1.0, sum(line.share for line in lines))
    return share if share >= least and sum(line.samples for line in lines) >= SEEN else 0.0


def _gone(share: float) -> Estimate:
    low, likely, high = (share * (1 - kept) for kept in KEPT)
    return Estimate(low, likely, high)
