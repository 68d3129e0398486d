"""Which of several ranks failed first, told once the command has ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfdoctor.runs import directory
from perfdoctor.watch.scheduler_task import SchedulerTask
from perfdoctor.wire import names


def first(
    path: Path, argv: Sequence[str], returncode: int, task: SchedulerTask | None
) -> tuple[str | None, int | None]:
    """Of several ranks, how one failed first and which; one whose end nobody saw is written down as well."""
    from perfdoctor.runs import exits  # here: the command did not wait for numpy
    from perfdoctor.runs import job as jobs

    job = jobs.join([path])
    failures = list(job.failures)
    if not failures and task is not None:
        failures = [{"event": exits.FAILED, "rank": task.rank, "exitcode": returncode}]
    elif job.world > 1:
        unseen = [line for folder in job.folders for line in exits.lost(folder)]
        for line in unseen:
            directory.append_line(path / names.AGENT, line)
        failures = unseen + failures  # beside others, it was before the launcher ended them
    last = [line for line in failures if (line.get("attempt") or 0) == job.attempt]
    sentence = next(exits.sentences(last, exits.launcher(argv)), None)
    return sentence, next((line["rank"] for line in exits.distinct(last)), None)
