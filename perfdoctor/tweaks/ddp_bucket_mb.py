"""Synchronise gradients in buckets of N megabytes.

## What changes
`bucket_cap_mb` of each `DistributedDataParallel` that the script builds. Gradients are averaged over the
processes bucket by bucket while backward goes on: small buckets start early, large ones have less fixed cost.

## Left alone
- A model whose gradients fit into one bucket, both of its present size and of the requested one.
- A model that sets the size of each of its buckets (`bucket_cap_mb_list`).

## Same result
Within rounding. Two processes get the same bits; more processes add up in another order where buckets begin
elsewhere.
"""

from __future__ import annotations

from typing import Any, Dict

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import ROUNDING, Count, Tweaking, tweak
from ._ddp import CALL, on_arguments

LARGEST_MB = 65_536  # no gradients of one process are larger, and the size in bytes stays far from 2**63
USUAL_MB = 25  # torch's own, whose first bucket is smaller
FIRST_MB = 1  # that first one: torch.distributed._DEFAULT_FIRST_BUCKET_BYTES


@tweak(
    "--ddp-bucket-mb", ROUNDING, Count(1, LARGEST_MB), edits=[Argument(CALL, name="bucket_cap_mb", place=7)]
)
def ddp_bucket_mb(here: Tweaking, size_mb: int) -> None:
    """Give every DistributedDataParallel buckets of `size_mb` MiB."""
    what = "DistributedDataParallel bucket_cap_mb"

    def change(model: Any, given: Dict[str, Any]) -> bool:
        was = given.get("bucket_cap_mb")
        smallest_mb = min(size_mb, FIRST_MB if was is None else was)
        if given.get("bucket_cap_mb_list"):
            here.left_alone(what, "the script sets the size of each bucket")
        elif was == size_mb:
            here.left_alone(what, f"it is already {size_mb}")
        elif _gradients_mb(given["module"]) <= smallest_mb:
            here.left_alone(what, f"all gradients fit into one bucket of {smallest_mb:g} MB")
        else:
            here.applied(what, USUAL_MB if was is None else was, size_mb)
            given["bucket_cap_mb"] = size_mb
            return True
        return False

    on_arguments(here, change)


def _gradients_mb(module: Any) -> float:
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return float(sum(parameter.numel() * parameter.element_size() for parameter in trained)) / 2**20
