"""Notes of traces."""

from __future__ import annotations

SENTENCES = {
    "judged-file": "verdict and findings are for {name}, {why}",
    "warm-up-step": "{step} took much longer than the steps after it and was left out: it warms up",
    "lagging-step": "{step} took the device much longer than the steps after it, but not its host, and was"
    " left out: the device was still busy when its mark ended",
    "idle-step": "{step}, the last one, ran no operator and was left out: the loop had ended",
    "no-steps-marked": "the trace has no step marks (profiler.step()): shares are of the whole trace",
    "of-file": "{file}: {note:note}",
    "device-not-everywhere": "no work of a device is in {files:names}: of devices nothing is compared, and of"
    " operators the host's time",
    "no-device-events": "no device event was recorded: this is a trace of the CPU",
    "device-unused": "nothing ran on the device that the profiler watched: are model and batches on it?",
    "freed-memory": "the device idles {share:percent} of the time for memory that is given back to it, in"
    " {calls:n call} of {name}: torch keeps memory for the next tensors, unless nearly all is in use,"
    " torch.cuda.empty_cache() is called, or that is switched off",
    "several-processes": "the file holds operators of {processes} processes, which count as one: where traces"
    " of several ranks were merged, give the files of the ranks instead",
    "unknown-device": "the peak rates of this device are not known: no shares of its peak",
    "few-launches": "most launches are not in the trace: causes of idle time are unknown",
    "no-shapes": "no shapes were recorded: no sizes of matrix products and no operations per second",
}
