"""A comparison of traces as the JSON document `perfdoctor.trace-comparison/1`.

Times are microseconds; `grown_us` is what came after less what was before.
"""

from __future__ import annotations

from perfdoctor.diagnosis.trace_comparison import Difference, TraceComparison
from perfdoctor.model.dataclass import dataclass
from perfdoctor.render.documents.encoder import Document, Shape


@dataclass(frozen=True)
class Side:
    """The files of one side, and their steps."""

    files: tuple[str, ...]
    steps: float


def _before(comparison: TraceComparison) -> Side:
    return Side(comparison.before, comparison.before_steps)


def _after(comparison: TraceComparison) -> Side:
    return Side(comparison.after, comparison.after_steps)


COMPARISON = Document(
    "perfdoctor.trace-comparison/1",
    TraceComparison,
    "What `perfdoctor trace --compare A B --json` prints. Times are microseconds.",
    {
        TraceComparison: Shape(
            "before after per_step times classes kernels ops notes", before=_before, after=_after
        ),
        Difference: Shape("* grown_us"),
    },
)
document, dumps = COMPARISON.document, COMPARISON.dumps
