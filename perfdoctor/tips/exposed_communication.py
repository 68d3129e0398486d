"""Gradients are synchronised while nothing is computed.

## What it sees
How long each gradient sync blocks training once the last rank has arrived: waiting for a straggler is left
out, because its fix is another one. In a trace of a device: communication kernels that no computation
overlaps.

## By hand
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])    # reduced by hand: once, not each
    model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)   # not tiny
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)    # half the bytes, on a slow link
    with model.no_sync():                                               # accumulate, synchronise less often
    layer.set_modules_to_forward_prefetch([next_layer])                 # fully_shard: gather ahead
    FSDP(model, forward_prefetch=True, ...)                             # FullyShardedDataParallel: likewise

## When not
If one rank is a straggler, the others wait inside their collectives: fix that rank, not the network. The
record or the trace of one rank cannot tell the two apart; those of all ranks can.
"""

from __future__ import annotations

from perfdoctor.facts.ranks.gradient_sync import placed, startup_share
from perfdoctor.model.change import Change, Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import RunFacts
from perfdoctor.model.ranks import DDP, GradientSyncFacts
from perfdoctor.model.units import count, size
from perfdoctor.tips.catalogue import Checked, tip

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
MOSTLY = 0.5  # of the exposed time, in collectives of the script's own: then they come first
WORTHWHILE = 0.2  # of the exposed time: a compression that saves less of it is eaten up elsewhere
# What gathers the next layer's parameters ahead, by what shards them.
AHEAD = {
    "FSDP": "layer.set_modules_to_forward_prefetch([next_layer])  # for each layer, and one for backward",
    "FullyShardedDataParallel": (
        "FSDP(..., forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE)"
    ),
}
# Gradients that the script reduces by itself, one tensor at a time.
IN_ONE = """model = DistributedDataParallel(model)  # reduces few large buckets, during backward
# or: flat = torch.cat([p.grad.flatten() for p in model.parameters()]); dist.all_reduce(flat)"""

OWN = """# what follows from weights that DistributedDataParallel keeps equal needs no exchange
flat = torch.cat([t.flatten() for t in tensors]); dist.all_reduce(flat)  # the rest at once, every N steps"""


@tip(
    title="Overlap gradient sync with computation, or send fewer bytes",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def exposed_communication(run: RunFacts, sync: GradientSyncFacts) -> Advice | None:
    """Advises overlapping or shrinking gradient sync where it blocks training."""
    if sync.exposed < NOTICEABLE or sync.kind == "DataParallel":  # which another tip takes for its problem
        return None
    hidden = max(0.0, 1 - sync.exposed / sync.all) if sync.all else 0.0
    a_step = f" ({sync.each_s * 1e3:.2f} ms a step)" if sync.each_s is not None else ""
    because = (f"{sync.exposed:.1%} of the time is communication that no computation overlaps{a_step}",)
    if sync.buckets:
        return _of_run(run, sync, because)
    both = (*because, f"{hidden:.0%} of all communication is overlapped")
    change = removes(*(sync.exposed * gone for gone in GONE))
    if sync.kind in AHEAD:
        return Advice(both, change, placed(sync), code=AHEAD[sync.kind])
    tweak, code = _half(run)
    return Advice(both, change, placed(sync), tweak, same_result=False, code=code)


def _half(run: RunFacts) -> tuple[str, str]:
    """The tweak and the code that send half the bytes; gloo cannot reduce bf16."""
    if run.device == "cpu":
        return "--ddp-compress fp16", "model.register_comm_hook(None, default_hooks.fp16_compress_hook)"
    return "--ddp-compress bf16", "model.register_comm_hook(None, default_hooks.bf16_compress_hook)"


def _of_run(run: RunFacts, sync: GradientSyncFacts, because: tuple[str, ...]) -> Advice:
    """Advice by what is sent, and how."""
    if sync.own >= MOSTLY:
        return _of_own(sync, because)
    each = sync.bytes / sync.buckets if sync.buckets else 0.0
    rate = f", {size(sync.bus_bytes_per_s)}/s on the bus" if sync.bus_bytes_per_s else ""
    much = f"{size(sync.bytes)} a step in {count(max(1, round(sync.buckets)), 'collective')}"
    because = (*because, f"{sync.kind} of {sync.ranks} ranks: {much} of {size(each)}{rate}")
    change = removes(*(sync.exposed * gone for gone in GONE))
    if sync.kind in AHEAD:
        return Advice(because, change, placed(sync), code=AHEAD[sync.kind])
    small = _are_small(sync)
    if sync.kind != DDP and small:
        many = f"such small ones take longer to start than to transfer: one of {size(sync.bytes)} starts once"
        return Advice((*because, many), _merged(sync, each), placed(sync), code=IN_ONE)
    if sync.kind != DDP:
        code = "work = dist.all_reduce(tensor, async_op=True)  # and work.wait() where the result is needed"
        return Advice(because, change, placed(sync), code=code)
    if small:
        why = f"such small buckets take longer to start than to transfer: torch's default is {USUAL_MB} MB"
        code = f"DistributedDataParallel(model, bucket_cap_mb={USUAL_MB})"
        flag, merged = f"--ddp-bucket-mb {USUAL_MB}", _merged(sync, each)
        return Advice((*because, why), merged, placed(sync), flag, code=code)
    smaller = _smaller(sync)
    if smaller.step.likely >= WORTHWHILE * sync.exposed:
        flag, code = _half(run)
        return Advice(because, smaller, placed(sync), flag, same_result=False, code=code)
    if startup_share(each) > HALF:
        few = "so few bytes take longer to start than to transfer: fewer exchanges help, not smaller ones"
        because = (*because, few)
    fewer = removes(0.0, HALF * sync.exposed, HALF * sync.all)
    code = "with model.no_sync():  # every second backward; step() and zero_grad() after the others\n    ..."
    return Advice(because, fewer, placed(sync), "--accumulate 2", same_result=False, code=code)


def _are_small(sync: GradientSyncFacts) -> bool:
    """Whether gradients go in many small pieces; what the script exchanges beside them is none of them."""
    buckets = sync.buckets - sync.own_calls
    few = buckets < SEVERAL * max(1.0, sync.exchanges)
    return not few and sync.bytes - sync.own_bytes < SMALL_BYTES * buckets


def _of_own(sync: GradientSyncFacts, because: tuple[str, ...]) -> Advice:
    """Advice on what the script exchanges beside its wrapper, which may not be needed at all."""
    each = sync.own_bytes / sync.own_calls if sync.own_calls else 0.0
    much = f"{count(max(1, round(sync.own_calls)), 'collective')} a step, {size(sync.own_bytes)} together"
    beside = f"{sync.own:.0%} of that in {much}, which the script calls itself, beside {sync.kind}"
    exposed, start = sync.exposed * sync.own, startup_share(each)
    likely = max(GONE[1], start * (1 - 1 / max(1.0, sync.own_calls)) * MERGED[1])
    return Advice(
        (*because, beside),
        removes(GONE[0] * exposed, likely * exposed, exposed),
        (sync.called_at,) if sync.called_at else (),
        code=OWN,
    )


def _merged(sync: GradientSyncFacts, each: float) -> Change:
    """Removes the cost of starting all those collectives, except the few that are left."""
    left = max(1.0, sync.bytes / (USUAL_MB << 20)) * max(1.0, sync.exchanges) / sync.buckets
    gone = sync.exposed * startup_share(each) * max(0.0, 1 - left)
    return removes(*(gone * share for share in MERGED))


def _smaller(sync: GradientSyncFacts) -> Change:
    """Half the bytes take half as long, and save exposed time first; casting costs CPU time."""
    if sync.each_s is None or sync.each_s <= 0:
        return Change()
    step_s = sync.each_s / sync.exposed
    goes = (1 - HALF) * (1 - startup_share(sync.bytes / max(1.0, sync.buckets)))  # with the bytes
    saved_s = min(sync.each_s, goes * max(sync.moving_s, sync.each_s))
    return removes(*(max(0.0, saved_s - sync.bytes / rate) / step_s for rate in CASTS))
