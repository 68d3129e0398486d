"""Notes of a DataLoader that was measured alone."""

from __future__ import annotations

SENTENCES = {
    "batch-takes": "{part} takes {share:.0%} of the time to prepare a batch",
    "batch-in-worker-takes": "{part} takes {share:.0%} of the time to prepare a batch in a worker",
    "sampler-takes": "the sampler takes {share:.0%} of the time to prepare a batch, in the training process:"
    " workers do not shorten that",
    "reading-blocks": "{share:.0%} of reading neither computes nor waits for a core:"
    " it waits for a disk, a network or a lock",
    "loading-still-rises": "loading still speeds up at {workers:n worker}: more may be faster",
    "transfer-costs-more": "transferring batches costs more than workers save; but workers load while the"
    " script computes",
    "collating-limits": "collating and worker transfer limit loading: without reading it would not be"
    " much faster",
    "cores-limit": "{busy:.1f} of {cores:g} usable cores are busy: the cores limit loading",
    "measurement-ended": "the measurement was {outcome}: these are the results so far",
    "workers-repeat": "{workers:n worker} give the same samples, each all of them: the dataset has to share"
    " itself out by get_worker_info(); until it does, more than 1 worker only repeats data",
    "failed-with": "with {workers:workers}: {failure:note}",
    "no-batch": "no batch arrived: the dataset is empty, smaller than one batch, or already consumed",
    "iterated-once": "the dataset can be iterated only once",
    "loading-raised": "{error}",
    "loading-raised-at": "{error} ({file}:{line})",
    "no-time-for": "time ran out before {workers:n worker} could be measured: give more with --seconds",
    "no-memory-for": "{workers:n worker} were not tried: they would take more memory than is free",
    "no-shared-memory-for": "{workers:n worker} were not tried: their batches would not fit into /dev/shm",
    "no-gain-before": "{workers:n worker} were not tried: the last two settings brought no gain",
    "script-exited": "ended early, the script exited with status {status}: ignore its messages about that",
    "cold-only-once": "an iterable dataset yields its first samples to every setting: only one setting can"
    " be cold",
    "no-cold-samples": "no cold samples were left for {workers:list} workers",
    "cores-held": "other programs held the cores for up to {share:.0%} of a worker's time: measure again on"
    " an idle machine",
    "loading-varies": "the measurements vary by up to {share:.0%}: the machine was busy, or batches differ;"
    " measure again, longer (--seconds)",
    "one-rank-alone": "one of {ranks} ranks was measured, alone: in training each has {cores} of the cores",
    "one-of-several-loaders": "the script had built {built} DataLoaders: this is number {number}; another"
    " one: --number N or --at FILE:LINE",
    "no-batch-measured": "no batch was measured",
    "no-loader": "the script trains without a DataLoader: it updated its model before it iterated one",
    "loader-not-built": "of the DataLoaders that the script built before its update {updates}, none is the"
    " one to measure ({built})",
    "failed-before-loader": "the script ended with status {status:.0f} before its loader could be measured",
    "never-iterated": "the script never iterated a torch DataLoader",
    "never-iterated-with-gradients": "the script never iterated a torch DataLoader while gradients were on,"
    " as training does ({built})",
    "ended-before-loader": "the script ended before it built the DataLoader to measure ({built})",
}
