"""A measured link as a page for people: the curve, what it comes to, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from perfdoctor.net import Exchange, Net
from perfdoctor.render import parts, words
from perfdoctor.render.words import harmless

BUCKET_BYTES = 25 * 2**20  # of DistributedDataParallel, by default
MODEL_BYTES = 100e6  # gradients of 25 million parameters in float32: of a ResNet-50
WELL = 0.1  # of an exchange: where latency takes less, larger buckets bring nothing worth a change
# One stream of TCP fills cards of up to 10 Gbit/s to nine tenths, and several or RDMA do so for faster ones:
# what stays below half of the card goes another way, or shares it.
EXPECTED = 0.5
MEGA = 2**20


def page(net: Net, width: int = 80, colour: bool = False, cwd: str = "") -> str:
    """The whole page as text, at most `width` columns wide."""
    return parts.spaced(_blocks(net, cwd), parts.columns(width), colour)


def advice(net: Net) -> str:
    """What to make of it, in one sentence."""
    law, rate = net.law, net.link_bytes_per_s
    if law is None:
        return "too few sizes were measured to tell what bounds an exchange: give it more time (--seconds 60)"
    if rate is None:
        return "only latency was seen: whatever the size, exchanging less often is all that helps (no_sync)"
    card = net.nic
    if len(set(net.hosts)) > 1 and card and card.bytes_per_s and rate < EXPECTED * card.bytes_per_s:
        variable = "NCCL_SOCKET_IFNAME" if net.backend == "nccl" else "GLOO_SOCKET_IFNAME"
        return (
            f"the ranks reach {words.percent(rate / card.bytes_per_s)} of what {card.name} can carry: see "
            f"whether they use it ({variable}={card.name.partition(':')[0]}), and what else does"
        )
    least = law.latency_s * (1 - WELL) / WELL / law.seconds_per_byte
    if least > BUCKET_BYTES:
        share = law.latency_s / law.seconds(BUCKET_BYTES)
        return (
            f"latency is {words.percent(share)} of exchanging one of DDP's buckets of 25 MB: larger ones"
            f" pay, try --ddp-bucket-mb {round(least / MEGA)}"
        )
    takes = words.seconds(law.seconds(MODEL_BYTES))
    return (
        f"to exchange {words.size(MODEL_BYTES)} of gradients takes {takes}: where a backward takes less,"
        " exchange less often (perfdoctor try --no-sync) or fewer bytes (--ddp-compress bf16)"
    )


def notes(net: Net) -> list[str]:
    """What a reader should know of the figures."""
    told = []
    if net.ended is not None:
        told.append(f"it ended before its time: {net.ended}")
    if net.cut is not None:
        told.append(f"{words.size(net.cut)} would have taken longer than was left: --seconds gives it more")
    if len(set(net.hosts)) == 1:
        how = "over its loopback" if net.backend == "gloo" else "over the links between its devices"
        told.append(f"all ranks are on this host: they exchange {how}, not over a network")
    if net.law is not None and net.law.error > WELL:
        told.append(
            f"the line misses half of the sizes by {words.percent(net.law.error)} or more: the way of "
            "exchanging changes with the size, or the machine was busy"
        )
    return told


def _blocks(net: Net, cwd: str) -> Iterator[RenderableType]:
    yield _title(net)
    yield _result(net)
    yield _table(net)
    if told := notes(net):
        yield parts.listed("Good to know", told)
    yield Text(f"Kept in {harmless(words.path(net.path, cwd))}", style=parts.QUIET, overflow="fold")


def _title(net: Net) -> RenderableType:
    hosts = list(dict.fromkeys(net.hosts))
    where = f"on {hosts[0]}" if len(hosts) == 1 else f"on {len(hosts)} hosts"
    name = Text.assemble(("perfdoctor net  ", "bold"), harmless(f"{words.count(net.ranks, 'rank')} {where}"))
    facts = [harmless(fact) for fact in (net.backend, net.device, f"torch {net.torch}")]
    return Group(parts.one_line(name), Text(words.joined(facts), style=parts.QUIET))


def _result(net: Net) -> RenderableType:
    law, rate = net.law, net.link_bytes_per_s
    lines: list[RenderableType] = []
    if law is not None:
        bandwidth = f"{words.size(rate)}/s between ranks, " if rate else ""
        lines.append(Text(f"{bandwidth}{words.seconds(law.latency_s)} before the first byte", style="bold"))
    if net.nic is not None and len(set(net.hosts)) > 1:
        known = net.nic.bytes_per_s
        carries = "does not say what it can carry" if known is None else f"can carry {words.size(known)}/s"
        lines.append(parts.bullet(f"the card {net.nic.name} {carries}", parts.QUIET))
    lines.append(parts.bullet(advice(net)))
    return Group(*lines)


def _table(net: Net) -> RenderableType:
    """A row for each size; the bars are shares of the best bus bandwidth."""
    table = parts.table("an all-reduce of", "takes", "half within", "bandwidth", "bus", "")
    table.columns[-1].justify, table.columns[-1].ratio = "left", 1
    table.columns[0].ratio = None
    best = max(map(net.bus_bytes_per_s, net.exchanges))
    for exchange in net.exchanges:
        table.add_row(*_row(net, exchange), parts.Bar(0.0, net.bus_bytes_per_s(exchange) / best, "green"))
    told = (
        "Bandwidth is bytes over time. Bus is that times 2 (n - 1) / n: what each link carries in a ring of n"
        " ranks, whatever n is."
    )
    return Group(table, Text(told, style=parts.QUIET))


def _row(net: Net, exchange: Exchange) -> tuple[str, ...]:
    return (
        words.size(exchange.bytes),
        words.seconds(exchange.seconds),
        f"{words.seconds(exchange.low_s)} - {words.seconds(exchange.high_s)}",
        f"{words.size(exchange.bytes / exchange.seconds)}/s",
        f"{words.size(net.bus_bytes_per_s(exchange))}/s",
    )
