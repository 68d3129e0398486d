"""What is known of the sizes of a trace's matrix products, and why not where it is not."""

from __future__ import annotations

from perfdoctor.diagnosis.verdict import WORTHWHILE
from perfdoctor.facts.device.device import DeviceFacts, MatrixFacts, kernel_facts, matrix_facts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.trace.results import KernelClass, RankTrace

NO_SHAPES = Missing("no shapes of matrix products were recorded (record_shapes=True)")
NO_SIZES = Missing(
    "no sizes of the matrix products that ran are known: record_shapes=True tells those of torch's operators"
    " outside of CUDA graphs"
)
ANY_SIZE = frozenset(("float32", "float64"))  # number types whose products are as fast at any size


def sizes(trace: RankTrace, device: DeviceFacts) -> MatrixFacts | Missing | None:
    """Matrix products by their sizes, or why none are known; None where no such product ran."""
    if trace.matrices:
        return matrix_facts(trace, device)
    if Note("no-shapes") in trace.notes:
        return NO_SHAPES
    return NO_SIZES if any(use.kind is KernelClass.MATMUL for use in trace.classes) else None


def unjudged(trace: RankTrace, device: DeviceFacts | None) -> str | None:
    """What stands beside a verdict that nothing is to be gained: the tip on sizes could not see them.

    None where little of the time is that of products whose size matters, or where their sizes are known.
    """
    if device is None:
        return None
    ran_us = sum(
        use.us for use in trace.kernels if use.kind is KernelClass.MATMUL and use.dtype not in ANY_SIZE
    )
    known_us = sum(use.us for use in trace.matrices if use.dtype not in ANY_SIZE)
    share = min(1.0, kernel_facts(trace, device).scale * (ran_us - known_us))
    if share < WORTHWHILE:
        return None
    return (
        f"misaligned-shapes could not be judged in {share:.0%} of the time: shapes are missing of the matrix"
        " products there (record_shapes=True)"
    )
