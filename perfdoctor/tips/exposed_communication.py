"""Gradients are exchanged while nothing is computed.

## What it sees
How long each exchange between the ranks blocks training once the last of them has come: waiting for a late
rank is left out, for its cure is another. In a trace of a device: communication kernels with no computing
beside them.

## By hand
    model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)   # not tiny ones
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)    # half the bytes, on a slow link
    with model.no_sync():                                               # accumulate, exchange less often
    layer.set_modules_to_forward_prefetch([next_layer])                 # FSDP: gather ahead

## When not
Where a rank comes late, the others wait inside their collectives: the cure is that rank, not the network. The
record or the trace of one rank cannot tell the two apart; those of all ranks can.
"""

from __future__ import annotations

from perfdoctor.analysis.exchange import CommFacts, placed, setting_out
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, removes
from perfdoctor.job import ExchangeFacts
from perfdoctor.model import Advice, Bottleneck, RunFacts
from perfdoctor.units import count, size

NOTICEABLE = 0.05  # share of the time; the last bucket of gradients is never hidden
# Of the exposed time: what regrouped buckets hide, what half the bytes save, and all of it.
GONE = (0.2, 0.5, 0.95)
# Buckets below a megabyte cost more to set out than to move (Li et al., PyTorch Distributed, VLDB 2020: with
# gloo the time falls until some 500,000 numbers are sent at once); torch's own are 25.
SMALL_BYTES, USUAL_MB = 1 << 20, 25
SEVERAL = 3.0  # buckets of an exchange
MERGED = (0.5, 0.85, 1.0)  # of what setting out takes: one large bucket begins later, and hides less
# Bytes per second at which a CPU turns 32-bit numbers into 16-bit ones and back, both ways through memory.
CASTS = (1e9, 2e9, 4e9)
HALF = 0.5  # of the bytes are left of 16-bit numbers, and of the exchanges if every second step accumulates
WORTHWHILE = 0.2  # of the exposed time: a compression that saves less of it is eaten up elsewhere


@tip(
    title="Hide gradient exchange behind computing, or send fewer bytes",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def exposed_communication(run: RunFacts, comm: CommFacts) -> Advice | None:
    """Hidden or smaller exchange, where it is waited for."""
    if comm.exposed < NOTICEABLE:
        return None
    hidden = max(0.0, 1 - comm.exposed / comm.all) if comm.all else 0.0
    a_step = f" ({comm.each_s * 1e3:.2f} ms a step)" if comm.each_s is not None else ""
    said = (
        f"{comm.exposed:.1%} of the time is communication that no computing hides{a_step}",
        f"{hidden:.0%} of all communication is hidden",
    )
    if comm.exchange is None:
        return Advice(
            because=said,
            change=removes(*(comm.exposed * gone for gone in GONE)),
            tweak=_half(run)[0],
            same_result=False,
            code=_half(run)[1],
        )
    return _of_run(run, comm, comm.exchange, said)


def _half(run: RunFacts) -> tuple[str, str]:
    """The tweak and the code that send half the bytes: gloo adds up no bf16."""
    if run.device == "cpu":
        return "--ddp-compress fp16", "model.register_comm_hook(None, default_hooks.fp16_compress_hook)"
    return "--ddp-compress bf16", "model.register_comm_hook(None, default_hooks.bf16_compress_hook)"


def _of_run(run: RunFacts, comm: CommFacts, exchange: ExchangeFacts, said: tuple[str, ...]) -> Advice:
    """Advice for what is exchanged, and how."""
    each = exchange.bytes / exchange.buckets if exchange.buckets else 0.0
    rate = f", {size(exchange.bus_bytes_per_s)}/s on the bus" if exchange.bus_bytes_per_s else ""
    much = f"{size(exchange.bytes)} a step in {count(max(1, round(exchange.buckets)), 'collective')}"
    because = (*said, f"{exchange.kind} of {exchange.ranks} ranks: {much} of {size(each)}{rate}")
    change = removes(*(comm.exposed * gone for gone in GONE))
    if exchange.kind == "FSDP":
        code = "layer.set_modules_to_forward_prefetch([next_layer])  # for each layer, and one for backward"
        return Advice(because, change, placed(exchange), code=code)
    if exchange.kind != "DistributedDataParallel":
        code = "work = dist.all_reduce(tensor, async_op=True)  # ... and work.wait() where it is needed"
        return Advice(because, change, placed(exchange), code=code)
    if each < SMALL_BYTES and exchange.buckets >= SEVERAL * max(1.0, exchange.exchanges):
        small = f"buckets that small cost more to set out than to move: torch's have {USUAL_MB} MB"
        code = f"DistributedDataParallel(model, bucket_cap_mb={USUAL_MB})"
        flag, merged = f"--ddp-bucket-mb {USUAL_MB}", _merged(comm, exchange, each)
        return Advice((*because, small), merged, placed(exchange), flag, code=code)
    smaller = _smaller(comm, exchange)
    if smaller.step.likely >= WORTHWHILE * comm.exposed:
        flag, code = _half(run)
        return Advice(because, smaller, placed(exchange), flag, same_result=False, code=code)
    fewer = removes(0.0, HALF * comm.exposed, HALF * comm.all)
    code = "if step % 2: optimizer.step()  # with model.no_sync() for the backward of the other steps"
    return Advice(because, fewer, placed(exchange), "--accumulate 2", same_result=False, code=code)


def _merged(comm: CommFacts, exchange: ExchangeFacts, each: float) -> Change:
    """What it takes to set out so many collectives goes, but for that of the few that are left."""
    left = max(1.0, exchange.bytes / (USUAL_MB << 20)) * max(1.0, exchange.exchanges) / exchange.buckets
    gone = comm.exposed * setting_out(each) * max(0.0, 1 - left)
    return removes(*(gone * share for share in MERGED))


def _smaller(comm: CommFacts, exchange: ExchangeFacts) -> Change:
    """Half the bytes take half as long, and exposed time goes first; casting costs the CPU time."""
    if comm.each_s is None or comm.each_s <= 0:
        return Change()
    step_s = comm.each_s / comm.exposed
    goes = (1 - HALF) * (1 - setting_out(exchange.bytes / max(1.0, exchange.buckets)))  # with the bytes
    saved_s = min(comm.each_s, goes * max(exchange.moving_s, comm.each_s))
    return removes(*(max(0.0, saved_s - exchange.bytes / rate) / step_s for rate in CASTS))
