"""Notes of a trial."""

from __future__ import annotations

SENTENCES = {
    "ended-after-steps": "each execution was ended after its measured steps, as if the script had exited",
    "whole-executions": "executions ran one after the other instead of taking turns: {because}",
    "can-tell": "takes about {seconds:duration} and can detect changes of {change:percent} or more",
    "takes-whole": "takes at most about {seconds:duration}, in {rounds} rounds of whole executions",
    "cannot-tell": "takes about {seconds:duration} and can detect only changes of {change:percent} or more,"
    " because steps vary that much; for finer results: perfdoctor try --seconds {needed}",
    "over-budget": "{seconds:duration} are too short: {rounds} rounds take about {needed:duration}",
    "same-samples": "{variant} was measured over the same samples: {steps} steps, after {warm_up_steps}",
    "longer-period": "epochs, validations or checkpoints recur every {period} steps, but {steps} were"
    " measured: add --steps {period} to include them in proportion",
    "no-metric": "--metric {metric}: nothing printed in the executed steps matches",
    "ended-abandoned": "ended {count:n process} that an earlier trial, which was killed, had left running",
    "trial-ended": "the trial ended here: {error}; {hint}",
    # of --auto
    "nothing-faster": "no tried tweak is faster beyond the noise with the same result",
    "below-the-noise": "not tried: {names:list}: the predicted gains are below the noise here ({noise:.1%})",
    "out-of-reach": "not tried: {because}",
    "no-time-left": "not tried: {names:list}: no time left",
    "walk-ended": "--auto stopped at {variant}: {because}",
    "not-confirmed": "the kept tweaks together were not compared with the original",
    "undone": "{tweak} was undone: {variant}, {outcome}",
    "by-hand": "{words} by hand{places:places}: {code}",
    # of --ranks
    "more-ranks-than-gpus": "{ranks} ranks on {gpus:n GPU}: they share them, or fail",
    "more-ranks-than-cores": "{ranks} ranks share {cores:g} usable cores: none is as fast as alone",
    "threads-differ": "torchrun gives each of several ranks one thread, and one rank all: set {variable} to"
    " compare ranks with as many threads",
    "samples-unknown": "samples could not be counted: each rank is assumed to train on equally many per step",
}
