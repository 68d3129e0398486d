"""A measured link as the public JSON document `perfdoctor.net/1`, described by docs/net.schema.json."""

from __future__ import annotations

from perfdoctor.diagnosis.link import advice, remarks
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.link import SCHEMA, AllReduce, Law, Net
from perfdoctor.render.documents.encoder import Document, Shape
from perfdoctor.render.notes import all_worded, worded


@dataclass(frozen=True)
class MeasuredSize(AllReduce):
    """All-reduces of one size, and how fast they were."""

    bytes_per_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True)
class LinkLaw(Law):
    """The law, and what it comes to for large exchanges."""

    bus_bytes_per_s: float | None


def _sizes(net: Net) -> list[MeasuredSize]:
    return [
        MeasuredSize(
            **vars(each), bytes_per_s=each.bytes / each.seconds, bus_bytes_per_s=net.bus_bytes_per_s(each)
        )
        for each in net.exchanges
    ]


def _advice(net: Net) -> str:
    return worded(advice(net))


def _notes(net: Net) -> list[str]:
    return all_worded(remarks(net))


def _law(net: Net) -> LinkLaw | None:
    return LinkLaw(**vars(net.law), bus_bytes_per_s=net.link_bytes_per_s) if net.law is not None else None


NET = Document(
    SCHEMA,
    Net,
    "What `perfdoctor net --json` prints. Seconds, bytes, bytes per second.",
    {
        Net: Shape(
            "command path ranks hosts backend device torch sizes law nic advice cut ended notes",
            sizes=_sizes,
            law=_law,
            advice=_advice,
            notes=_notes,
        )
    },
)
document, dumps = NET.document, NET.dumps
