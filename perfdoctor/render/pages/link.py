"""A measured link as a page for people: the curve, what it comes to, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.diagnosis.link import advice, remarks
from perfdoctor.model.link import AllReduce, Net
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded, worded
from perfdoctor.render.page import Bar, Block, Cell, Column, Headline, Page, Paragraph, Section


def page(net: Net, cwd: str = "") -> Page:
    """The whole page; files are named as seen from `cwd`."""
    return blocks.page(_sections(net, cwd))


def _sections(net: Net, cwd: str) -> Iterator[Section]:
    yield _title(net)
    yield list(_result(net))
    yield _sizes(net)
    if told := remarks(net):
        yield blocks.listed("Good to know", all_worded(told))
    yield [Paragraph(blocks.quiet(f"Kept in {text.path(net.path, cwd)}"))]


def _title(net: Net) -> list[Block]:
    hosts = list(dict.fromkeys(net.hosts))
    where = f"on {hosts[0]}" if len(hosts) == 1 else f"on {len(hosts)} hosts"
    name = (blocks.strong("perfdoctor net  "), f"{text.count(net.ranks, 'rank')} {where}")
    facts = text.joined([net.backend, net.device, f"torch {net.torch}"])
    return [Headline(name, level=1, cut=True), Paragraph(blocks.quiet(facts))]


def _result(net: Net) -> Iterator[Block]:
    law, rate = net.law, net.link_bytes_per_s
    if law is not None:
        bandwidth = f"{text.size(rate)}/s between ranks, " if rate else ""
        sentence = f"{bandwidth}{text.seconds(law.latency_s)} before the first byte"
        yield Headline(blocks.strong(sentence), level=2)
    if net.nic is not None and len(set(net.hosts)) > 1:
        known = net.nic.bytes_per_s
        carries = "does not say what it can carry" if known is None else f"can carry {text.size(known)}/s"
        yield blocks.bullets([f"the card {net.nic.name} {carries}"], quietly=True)
    yield blocks.bullets([worded(advice(net))])


def _sizes(net: Net) -> list[Block]:
    """A row for each size; the bars are shares of the best bus bandwidth."""
    figures = (Column(name, gives=name != "takes") for name in ("takes", "half within", "bandwidth", "bus"))
    columns = (Column(blocks.strong("an all-reduce of"), left=True), *figures, Column(left=True, wide=True))
    best = max(map(net.bus_bytes_per_s, net.exchanges))
    rows = tuple(
        (*_row(net, exchange), Bar(net.bus_bytes_per_s(exchange) / best, "green"))
        for exchange in net.exchanges
    )
    told = (
        "Bandwidth is bytes over time. Bus is that times 2 (n - 1) / n: what each link carries in a ring of n"
        " ranks, whatever n is."
    )
    return [blocks.Grid(columns, rows), Paragraph(blocks.quiet(told))]


def _row(net: Net, exchange: AllReduce) -> tuple[Cell, ...]:
    return (
        text.size(exchange.bytes),
        text.seconds(exchange.seconds),
        f"{text.seconds(exchange.low_s)} - {text.seconds(exchange.high_s)}",
        f"{text.size(exchange.bytes / exchange.seconds)}/s",
        f"{text.size(net.bus_bytes_per_s(exchange))}/s",
    )
