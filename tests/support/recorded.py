"""A small run as exports get it."""

from __future__ import annotations

from perfdoctor.model.measured import Phase
from perfdoctor.model.recorded import HostSample, Recorded, RecordedStack, RecordedStep

HOSTILE = 'a;b 7\n"</script>\\'
LINE = "train (/home/ada/train.py:7)"
RECORDED = Recorded(
    "run",
    0,
    1_700_000_000.0,
    (
        RecordedStep(0, 1.0, 0.5, {Phase.DATA_WAIT: 0.2, Phase.OTHER: 0.3}, 32.0, 2.5),
        RecordedStep(1, 1.5, 0.25, {Phase.DATA_WAIT: 0.25, Phase.OTHER: 0.0}, 0.0, None, 300.0),
    ),
    (HostSample(0.5, 7, "=main", 1.5, None, 1000, None, 20),),
    (
        RecordedStack("main", "forward", (LINE, HOSTILE), 30),
        RecordedStack("main", "other", (LINE,), 10),
        RecordedStack("worker 9", "loader", ("load (/home/ada/train.py:3)",), 4),
    ),
    0.05,
)
NOTHING = Recorded("run", 0, 0.0, (), (), (), None)
