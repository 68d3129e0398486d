"""Batches arrive late, and one place in the dataset's Python code takes much of their cost.

## What it sees
The step waits for batches, and one line, one short loop or one function of the user's dataset, transform or
collate code takes much of a batch's cost. Reading, decoding, waiting for locks and collating have tips of
their own.

## By hand
Vectorise the loop (NumPy or torch on the whole array), do in `__init__` once what does not change per item,
compile it (numba), or cache results that are needed again (`functools.lru_cache`).

A line that compares all rows of a table (or all values of an array, all items of a list) to find those of one
item costs more the larger the data: sort them into groups once, and look them up.

    rows_of = dict(list(table.groupby("key")))   # in __init__
    rows = rows_of[key]                          # instead of table[table["key"] == key]

A row of a sparse matrix that is stored by columns (CSC) is looked for among all its numbers, and so is a
column of one that is stored by rows: convert the matrix once (`tocsr`, `tocsc`). A filter along one axis may
have left it in the other form: where one line alone asks for that form, it is named first.

## When not
Where the line waits for a disk or a network, faster code does not help. Where decoding an image is most of
the cost, a faster decoder helps more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from perfdoctor.facts.user_source.library_table import SPARSE, called
from perfdoctor.model.batch import BatchFacts, CalledBack, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LineCost, LoaderFacts, Location, Phase, StepFacts
from perfdoctor.tips._passes_over_all import GOES, cure
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
MOST_OF_IT = 0.40  # of batch time in one place: more than the others together, nearly
# Of the batch's cost; below it the line waits for something that the table of calls does not know.
ON_CPU = 0.5
MOST_IN_ONE = 0.60  # of batch time in one function whose lines share it
MUCH_IN_ONE = 0.25  # of batch time in the costliest of several functions, where no place takes more
SHOWN = 3
REWRITTEN = (0.5, 0.8, 0.95)  # of the place's cost goes: by hand, vectorised, compiled
OF_MANY = (0.3, 0.7, 0.95)  # where it is spread over lines that each have to be rewritten
# Of what the dataset's other code takes: whoever rewrites one place works on whole arrays, or keeps items. By
# judgement: in the scripts of bench/unseen, gains were above the range while the other code did not count.
OF_OTHERS = (0.0, 0.3, 0.95)
OTHERS_SAID = 0.10  # of the batch
COLUMNS = "take the columns out of the DataFrame once, in __init__ (`.to_numpy()`), and index arrays"
PARSED = "parse once, before training, and store arrays (`np.save`), or keep the parsed items in memory"
ROWS = "convert once, in __init__: rows are taken fast from `matrix.tocsr()`, columns from `matrix.tocsc()`"
# A row of a sparse matrix that is stored by rows takes 28 us on one core, whatever its size; else all its
# numbers are gone through. What remains of that, at worst, likely, at best, and the share that surely is it.
ROW_S, ROW_SURE = (84e-6, 28e-6, 14e-6), (0.8, 1.0, 1.0)
TEXTS = "tokenize once, before training, and store the ids, or tokenize whole batches in the collate function"
IMAGES = "crop or resize before the costly transforms, or transform whole batches on the device"
# By what the line calls or indexes, and the library that runs there. None: no frame beyond the line.
CALLED = (
    (frozenset({".iloc[", ".loc["}), frozenset({None, "pandas"}), COLUMNS),
    (frozenset({"json.load", "json.loads", "pickle.load", "pickle.loads", "yaml.safe_load"}),
     frozenset({None, "json", "pickle", "yaml"}), PARSED),
    (frozenset(f"re.{name}" for name in ("sub", "subn", "split", "findall", "finditer", "search", "match",
                                         "fullmatch")),
     frozenset({None, "re", "sre_compile", "sre_parse"}), PARSED),
)  # fmt: skip
LIBRARIES = {
    **dict.fromkeys(("transformers", "tokenizers", "sentencepiece", "spacy", "nltk"), TEXTS),
    **dict.fromkeys(("albumentations", "imgaug", "torchvision", "kornia"), IMAGES),
    **dict.fromkeys(("json", "yaml", "csv", "xml", "bs4"), PARSED),
}

_Place = tuple[str, str | None]  # file, function


@tip(
    title="Rewrite the dataset's costliest code",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def slow_dataset_code(
    step: StepFacts, loader: LoaderFacts, batch: BatchFacts, cpu: CpuFacts
) -> Advice | None:
    """Names the costliest place of the dataset's own code, where the step waits for it."""
    hidden = step.share(Phase.DATA_WAIT) if loader.keeps_ahead(step.mean_s) else 0.0
    if step.data_stall - hidden < NOTICEABLE:
        return None
    worked_s = cpu.worked_s(loader.batch_cpu_s)
    if worked_s < ON_CPU * loader.batch_s and not cpu.crowded:  # else for cores, perhaps
        return None
    every, called = _with_calls(batch)
    lines = _place(every)
    if not lines:
        return None
    top, share = lines[0], min(1.0, sum(line.share for line in lines))
    crossed = {line.at for line in batch.lines(*SPARSE)}
    item_s = loader.batch_s * loader.batches / (loader.samples or loader.batches)
    others = share - min(share, top.share)
    text = top.at.text or ""
    laid_out = batch.laid_out_at if top.at in crossed else None
    backs = called.get((top.at.file, top.at.function), [])
    beyond = min(1.0 - share, sum(line.share for line in every) - share)
    where = "at" if len(lines) == 1 else "most of it at" if others < top.share else "above all at"
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms is spent in `{top.at.function}`, "
            f"{where} line {top.at.line}" + (f": `{text}`" if text else ""),
            *_laid_out(laid_out),
            *(_said(back) for back in backs),
            *(
                [f"another {beyond:.0%} is spent in other code of the dataset"]
                if beyond >= OTHERS_SAID
                else []
            ),
        ),
        change=Change(batch=_goes(lines, beyond, crossed, item_s)),
        at=_places(laid_out, top.at, *(back.by for back in backs), *(line.at for line in lines[1:])),
        code=ROWS if top.at in crossed else cure(top.at.statement) or _fix(top, batch),
    )


def _places(*places: Location | None) -> tuple[Location, ...]:
    return tuple(dict.fromkeys(place for place in places if place is not None))[:SHOWN]


def _laid_out(at: Location | None) -> list[str]:
    """The line that gives a matrix the layout that does not fit how it is read."""
    if at is None:
        return []
    text = f": `{at.text}`" if at.text else ""
    return [f"the matrix gets the layout that this does not fit in line {at.line} of {at.file_name}{text}"]


def _goes(lines: Sequence[LineCost], beyond: float, crossed: Collection[Location], item_s: float) -> Estimate:
    """How much of a batch's cost goes with these lines, the costliest first; `beyond` is in other code.

    `crossed` are those that take rows of a matrix that is stored by columns, `item_s` is what an item takes.
    """
    others = REWRITTEN if lines[0].share >= MOST_OF_IT else OF_MANY
    of_each = [
        tuple(
            sure * max(0.0, 1.0 - row_s / (line.share * item_s))
            for row_s, sure in zip(ROW_S, ROW_SURE, strict=True)
        )
        if line.at in crossed
        else GOES
        if cure(line.at.statement)
        else others
        if line is lines[0]
        else OF_MANY
        for line in lines
    ]
    low, likely, high = (
        min(
            1.0,
            sum(line.share * goes[at] for line, goes in zip(lines, of_each, strict=True))
            + beyond * of_others,
        )
        for at, of_others in enumerate(OF_OTHERS)
    )
    return Estimate(low, likely, high)


def _fix(line: LineCost, batch: BatchFacts) -> str | None:
    """What to do about a line, where its calls and the library below it tell; else None."""
    names, library = called(line.at.statement), batch.library(line)
    fits = (fix for signs, libraries, fix in CALLED if names & signs and library in libraries)
    return next(fits, LIBRARIES.get(library or ""))


def _with_calls(batch: BatchFacts) -> tuple[list[LineCost], dict[_Place, list[CalledBack]]]:
    """The lines, with what a library takes to call a function put down to the function; and those calls."""
    lines = {(line.at.file, line.at.line): line for line in batch.lines(Stage.TRANSFORMING, "", SPARSE[1])}
    called: dict[_Place, list[CalledBack]] = defaultdict(list)
    for back in batch.called_back:
        place, calling = (back.file, back.function), (back.by.file, back.by.line)
        costliest = next(
            (at for at, line in lines.items() if (line.at.file, line.at.function) == place), None
        )
        if costliest is not None and calling in lines:
            for at, more in ((costliest, back.share), (calling, -back.share)):
                lines[at] = replace(lines[at], share=lines[at].share + more)
            called[place].append(back)
    return sorted(lines.values(), key=lambda line: -line.share), called


def _said(back: CalledBack) -> str:
    text = f": `{back.by.text}`" if back.by.text else ""
    return f"{back.share:.0%} is what calling `{back.function}` takes line {back.by.line}{text}"


def _place(lines: Sequence[LineCost]) -> list[LineCost]:
    """The lines of one function, or one line, that take most of a batch, or else much; else an empty list."""
    functions: dict[_Place, list[LineCost]] = defaultdict(list)
    for line in lines:
        functions[line.at.file, line.at.function].append(line)
    costliest = max(functions.values(), key=lambda group: sum(line.share for line in group), default=[])
    share = sum(line.share for line in costliest)
    if share < MOST_IN_ONE and lines and lines[0].share >= MOST_OF_IT:
        return [lines[0]]
    return costliest if share >= MUCH_IN_ONE else []
