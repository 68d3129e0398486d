"""What bounds training with more ranks, as predicted and as measured."""

from __future__ import annotations

SENTENCES = {
    # predicted from a step
    "cores-wanted": "the ranks want {wanted:.1f} cores and have {cores:g}",
    "cores-wanted-on-nodes": "the ranks want {wanted:.1f} cores on each node and have {cores:g}",
    "gradient-sync-takes": "gradient sync takes {share:.0%} of the step",
    "waiting-takes": "waiting for stragglers takes {share:.0%} of the step",
    "batches-take": "batches take {share:.0%} of the step",
    "own-work-takes": "each rank's own work takes {share:.0%} of the step",
    # measured: by what a step has become longer
    "hardly-longer": "nothing yet: a step takes hardly longer",
    "waits-for-straggler": "{share:.0%} of a step is waiting for the straggler: the ranks are uneven, or"
    " short of cores",
    "transfers-gradients": "{share:.0%} of a step is exposed gradient transfer: fewer or smaller syncs help,"
    " or a faster link",
    "waits-for-batches": "{share:.0%} of a step more is waiting for batches: the ranks share what prepares or"
    " stores them",
    "computes-longer": "{share:.0%} of a step more is computing: {shared:note}",
    "python-takes-longer": "{share:.0%} of a step more is Python between the phases: the ranks share its"
    " cores",
    "counted-as-computing": "on a device, exposed gradient sync and lower clocks count as computing",
    "cores-needed": "the ranks need {needed:.1f} of {cores:g} usable cores",
    "memory-shared": "the ranks share memory bandwidth and caches, or have fewer threads each",
}
