"""Tips as pages: the catalogue by class, one tip explained, and the files under docs/tips."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.tip import Planned, Tip, TipHeading

ABOUT = {
    Bottleneck.DATA: "the step waits for batches",
    Bottleneck.NETWORK: "gradients or data are on their way",
    Bottleneck.TRANSFER: "tensors travel between host and device",
    Bottleneck.COMPUTE: "the device, or without one the CPU, computes",
    Bottleneck.HOST: "other Python runs between the steps",
}
NARROWEST = 60  # columns; a title shares its line with the id where there are more


def listing(tips: Sequence[Tip], planned: Mapping[str, Planned], width: int) -> str:
    """Every tip under its class, and below them those that are planned."""
    return "\n".join(_listing(tips, planned, width)) + "\n"


def _listing(tips: Sequence[Tip], planned: Mapping[str, Planned], width: int) -> Iterator[str]:
    column = max((len(name) for name in (*(tip.id for tip in tips), *planned)), default=0) + 2
    for kind, about in ABOUT.items():
        yield from textwrap.wrap(f"{kind.value}: {about}", width)
        for tip in tips:
            if tip.bottleneck is kind:
                yield from _entry(tip.id, f"{tip.title} ({held_against(tip.heading)})", column, width)
        yield ""
    if planned:
        yield "planned, not there yet"
        for name, entry in planned.items():
            yield from _entry(name, entry.title, column, width)
        yield ""
    yield from textwrap.wrap("In brackets, what a tip was held against:", width)
    for checked in dict.fromkeys(tip.heading.checked for tip in tips):
        deeper = " " * 4
        words = f"{checked.label}: {checked.value}"
        yield from textwrap.wrap(words, width, initial_indent="  ", subsequent_indent=deeper)
    yield ""
    yield "Explain one: perfdoctor tips ID"


def _entry(name: str, title: str, column: int, width: int) -> list[str]:
    """One line, or more where the title does not fit beside the name."""
    if width < NARROWEST:
        deeper = " " * 6
        return [f"  {name}", *textwrap.wrap(title, width, initial_indent=deeper, subsequent_indent=deeper)]
    indent = " " * (column + 2)
    lines = textwrap.wrap(title, max(20, width - column - 2)) or [""]
    return [f"  {name:<{column}}{lines[0]}", *(indent + line for line in lines[1:])]


def page(tip: Tip) -> str:
    """The tip's page in Markdown."""
    summary, _, rest = tip.doc.partition("\n\n")
    heading = tip.heading
    where = f"applies to: {', '.join(heading.applies)}; saves: {', '.join(heading.saves)}"
    facts = [
        f"- class: {tip.bottleneck.value} ({ABOUT[tip.bottleneck]})",
        f"- {where}; effort: {heading.effort.value}",
        f"- needs: {', '.join(sorted(kind.__name__ for kind in tip.needs.values()))}",
        f"- checked: {heading.checked.value}",
    ]
    if "gpu" in heading.applies and heading.checked_for("gpu") is not heading.checked:
        facts.append(f"- checked on a device: {heading.checked_for('gpu').value}")
    return "\n".join([f"# {tip.id}", "", f"**{tip.title}.** {summary}", "", *facts, "", rest.strip()]) + "\n"


def planned_page(name: str, entry: Planned) -> str:
    """What is known of a tip that is not there yet."""
    return f"{entry.title}: planned, not there yet ({entry.because})."


def index(tips: Sequence[Tip], planned: Mapping[str, Planned]) -> str:
    """The catalogue as a page in Markdown, with links."""
    lines = ["# Tips", "", "What perfdoctor looks for, by class. Every finding names one of these.", ""]
    for kind, about in ABOUT.items():
        lines += [f"## {kind.value}", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += ["| tip | the change | applies to | saves | checked |", "|---|---|---|---|---|"]
        lines += [_row(tip) for tip in tips if tip.bottleneck is kind]
        lines.append("")
    lines += ["## Planned", "", "These are planned and do not exist yet:", ""]
    lines += [f"- `{name}` ({entry.bottleneck.value}): {entry.because}." for name, entry in planned.items()]
    return "\n".join(lines) + "\n"


def held_against(heading: TipHeading) -> str:
    """What a tip was held against, in a word or two; on a device where that is more than scripts on CPUs."""
    other = heading.checked_on_device
    return heading.checked.label + (f"; on a device {other.label}" if other else "")


def _row(tip: Tip) -> str:
    heading = tip.heading
    cells = (
        f"[{tip.id}]({tip.id}.md)",
        tip.title,
        ", ".join(heading.applies),
        ", ".join(heading.saves),
        held_against(heading),
    )
    return f"| {' | '.join(cells)} |"
