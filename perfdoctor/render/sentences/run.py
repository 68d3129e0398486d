"""Notes of a run and the ranks of its job."""

from __future__ import annotations

SENTENCES = {
    # of a run
    "busy-machine": "other programs kept {busy:.1f} of {cores:g} cores busy: times and gains will differ on"
    " an idle machine",
    "shown-rank": "findings and phases are for rank {rank}",
    "rollouts": "passes in eval mode whose results training computes with count as `forward`, not as"
    " `validation`: {share:percent} of the time of all of them",
    "rival": '"{title}" ({gain:.2f}x likely) is an alternative to "{better}": choose one',
    "choice": 'a matter of choice, not counted above: "{title}" ({gain:.2f}x likely): perfdoctor tips {tip}',
    "small-gains": "small gains: {gains}",
    "wide-ranges": "wide ranges (finding {ranks}): few gains of this kind have been measured so far",
    "machine-ranges": "ranges of tweaks that act on {kind} come from {cases} trials on the machine of"
    " this run: perfdoctor history",
    "tweak-on": "{tweak} was on: {places:changes}",
    "tweak-left-alone": "{tweak} was on: {places:changes}; left alone: {left:changes}",
    "tweak-withdrawn": "{tweak} withdrew before the end: {places:changes}",
    "own-failure": "perfdoctor itself failed at {feature}: {error}; to report it: perfdoctor bug",
    # of its end for want of memory
    "memory-of-a-worker": "a worker of a loader had no memory left: fewer workers, a shorter queue"
    " (prefetch_factor), or a dataset that they share instead of each holding its own copy",
    "memory-more-than-all": "that alone is more than all there is ({asked:size} of {total:size}): look at"
    " the shapes on that line",
    "memory-of-others": "other processes hold {bytes:size} of {device}: nvidia-smi names them",
    "memory-fragmented": "torch had reserved {bytes:size} that no tensor used, in pieces too small:"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces grow",
    "memory-fits-batch": "batches of {fits:,} would have fitted up to here (instead of {batch:,}):"
    " accumulate gradients over {times} of them for the same update",
    "memory-of-activations": "{share:percent} of that is activations and other tensors of the step, which"
    " grow with the batch: torch.autocast roughly halves them, torch.utils.checkpoint keeps some and"
    " recomputes the rest",
    "memory-of-the-model": "{bytes:size} do not depend on the batch: use 16-bit parameters, an optimizer"
    " with less state, or sharding (FSDP)",
    "memory-to-come": "the optimizer had not stepped yet: Adam would need another {bytes:size}",
    # of devices that cannot be used
    "device-no-driver": "the script found no driver for its device: nvidia-smi (or amd-smi) shows whether one"
    " is loaded, and a container needs the device handed in",
    "device-old-driver": "the driver is older than this build of torch needs: update the driver, or install"
    " the build for its CUDA version (nvidia-smi shows it)",
    "device-held": "another process holds the device, which allows only one (exclusive-process mode):"
    " nvidia-smi names it",
    "device-lost": "the device failed during the run: figures end there; dmesg says why",
    "unused-device": "training ran on the CPU, though this machine has {devices}: `python -c 'import torch;"
    " print(torch.cuda.is_available())'` says whether torch can use it; if so, move model and batches to it",
    "unused-device-build": "training ran on the CPU, though this machine has {devices}: torch {torch} is"
    " built without support for it; install a build for CUDA or ROCm",
    "device-lost-at": "device {devices} failed during the run: its samples end there; dmesg says why",
    # of the files of a run
    "disk-full-no-steps": "the disk that holds the run was full at {since_epoch_s:clock}: whatever the script"
    " trained from then on is missing; keep runs elsewhere: perfdoctor run --out FOLDER",
    "disk-full-after-steps": "the disk that holds the run was full at {since_epoch_s:clock}: what came after"
    " the first {steps:n step} is missing; keep runs elsewhere: perfdoctor run --out FOLDER",
    "disk-full": "the disk that holds the run was full at {since_epoch_s:clock}: steps are complete, but what"
    " else was to be recorded from then on is missing",
    "no-run-json": "run.json cannot be read: command and exit status are unknown",
    "sources-changed": "changed since the run: {files:names}; their lines are not shown, and nothing is"
    " concluded from them",
    "unread-file": "{file} cannot be read: {why}",
    "file-left-out": "{file} {why} and was left out",
    "lost-file": "{file} holds nothing usable, so rank {rank} cannot be judged",
    "cut-short": "{file} is cut short: its end is missing",
    "broken-lines": "{file}: {count:n broken line} left out",
    "broken-rows": "{file}: {count:n broken row} left out",
    "too-long": "{file} is longer than {lines} lines: the rest was left out",
    "several-processes": "{count} processes of rank {rank} trained: the one with the most steps is shown",
    "started-again": "the launcher started the ranks {times} times: attempt {shown} is shown;"
    " steps of the others: {others:attempts}",
    "unread-window": "a window of torch.profiler could not be read: {why}",
    # of the ranks of a job
    "recorded-nothing": "{ranks:ranks} started but recorded nothing",
    "ranks-elsewhere": "{ranks:ranks} may have recorded elsewhere: {join}",
    "nodes-not-here": "the folder of {nodes:nodes} is not here ({ranks:ranks}): {join}",
    "different-versions": "the ranks have different versions of {what}: {versions:versions}",
    "unequal-steps": "the ranks took {low:,} to {high:,} steps, {ranks:ranks} the fewest",
    "unended-runs": "still running, or lost: {names:names}",
    "unread-folder": "{error}: its ranks are missing here",
    "part-of-job": "{ranks:ranks} of {world:,}; the report of all: perfdoctor report {folder}",
    "earlier-start": "{folder}: {ranks:ranks} of an earlier start of the job left out",
    "of-folder": "{folder}: {problem:note}",
    "more-problems": "{count:n more problem} with its files",
    "one-rank-recorded": "only one of {world} ranks recorded its gradient syncs:"
    " wait and transfer time cannot be told apart",
    "no-common-collective": "no collective was found on every rank: wait and transfer time cannot be told"
    " apart",
    "compared-in-groups": "no collective was found on every rank: each rank is compared with its own group",
    "too-little-recorded": "too little was recorded of {ranks:ranks} to compare it with the others",
    "not-compared": "{share:.0%} of the time in collectives could not be compared between ranks:"
    " it counts as transfer time",
}
