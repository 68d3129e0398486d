"""All ranks of one job: which run directories belong to it, and what its ranks recorded, one rank at a time.

A job has one run directory a node, or one a task, where each task has its own perfdoctor. In a shared folder
they are found by the job's own identity; elsewhere the user names them. Of a thousand ranks, only the one
that is being looked at is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import inf
from pathlib import Path

from perfdoctor.errors import NoSuchRun, NotARun, PerfdoctorError
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.ranks import rank_list
from perfdoctor.runs import exits, hangs, job_notes, regular_file
from perfdoctor.runs import records as recorded
from perfdoctor.runs.directory import RUN, Json, read_json
from perfdoctor.runs.json_text import whole
from perfdoctor.runs.records import Folder, Process, steps_made
from perfdoctor.runs.spans import meet, meeting, span_s
from perfdoctor.runs.types import JobRecords, RankRecords, RunRecords
from perfdoctor.wire.names import BOOT

SAMPLED_MAX = 16  # ranks of a job: of more, stacks are not held against each other
PROBLEMS = 6  # that are told of one folder; more are counted


class Job:
    """The ranks that trained together; `folders` hold them. One process alone is a job of one rank.

    Of a `part`, the ranks that are elsewhere are not missing.
    """

    def __init__(self, folders: Sequence[Folder], notes: Sequence[Remark] = (), part: bool = False) -> None:
        self._joining_notes: list[Remark] = list(notes)
        self.part = part
        self.folders, self.world = _of_last_start(folders, self._joining_notes)
        self._folder_of = {rank: folder for folder in self.folders for rank in folder.processes}
        self.ranks = tuple(sorted(self._folder_of))
        elsewhere = part or self.world < 2
        self.missing = () if elsewhere else tuple(sorted(set(range(self.world)) - self._folder_of.keys()))
        self.attempt = max((folder.attempt for folder in self.folders), default=0)
        self.failures = tuple(exits.distinct(_failures(self.folders, self.world)))

    @property
    def node_size(self) -> int | None:
        """How many ranks each node has, where the launcher told."""
        return job_notes.ranks_of_a_node(self.folders)

    def read(self, take: Callable[[RankRecords], object], known: Collection[Remark] = ()) -> JobRecords:
        """Read the ranks in order, one at a time, and hand each to `take`, which keeps what it needs of it.

        Notes that are among the `known` ones are left out of the result.
        """
        problems: dict[Path, list[Note]] = {folder.path: [] for folder in self.folders}
        steps: dict[int, int] = {}
        for records in self._each_rank(problems):
            steps[records.rank] = steps_made(records.steps)
            take(records)
        notes = self._notes(steps, problems)
        return JobRecords(
            world=self.world,
            missing=self.missing,
            exits=self._exits(),
            hangs=self._hangs(),
            attempt=self.attempt,
            notes=tuple(note for note in notes if note not in known),
        )

    def _each_rank(self, problems: Mapping[Path, list[Note]]) -> Iterator[RankRecords]:
        """Each rank with its events, steps and collectives; what cannot be read of its folder is noted.

        Those of a small job come with their stacks.
        """
        left = Counter(folder.path for folder in self._folder_of.values())
        hosts: dict[Path, Sequence[Json]] = {}
        for rank in self.ranks:
            folder = self._folder_of[rank]
            if folder.path not in hosts:
                hosts[folder.path] = folder.host(problems[folder.path])
            read = folder.sampled if self.world <= SAMPLED_MAX else folder.timed
            yield read(rank, problems[folder.path], hosts[folder.path])
            left[folder.path] -= 1
            if not left[folder.path]:
                del hosts[folder.path]  # samples of a thousand nodes would fill the memory

    def shown(self) -> RunRecords:
        """The folder of the lowest rank that trained, with all that this rank recorded."""
        return recorded.records_of(self._leading, others=False)

    @cached_property
    def _leading(self) -> Folder:
        """The folder of the lowest rank that trained; of the lowest rank, where none did."""
        trained = (self._folder_of[rank] for rank in self.ranks if self._folder_of[rank].trained(rank))
        lowest = (self._folder_of[rank] for rank in self.ranks)
        return next(trained, next(lowest, self.folders[0]))

    @property
    def _launcher(self) -> str:
        """Who started the ranks."""
        command = self._leading.run.get("command")
        return exits.launcher(list(map(str, command)) if isinstance(command, list) else [])

    def _exits(self) -> dict[int, str]:
        """How ranks of the attempt that is shown ended, of those that failed, in words."""
        failures = [failure for failure in self.failures if failure.get("attempt") in (None, self.attempt)]
        ranks = [whole(failure, "rank") for failure in failures]
        return {
            rank: exits.words(failure)
            for rank, failure in zip(ranks, failures, strict=True)
            if rank is not None
        }

    def _hangs(self) -> dict[int, str]:
        """Where living ranks were when no step ended any more, in words; nothing where steps went on."""
        hung_ranks = {rank: hung for folder in self.folders for rank, hung in hangs.read(folder.path).items()}
        return {rank: hung.words for rank, hung in sorted(hung_ranks.items()) if not hung.ended}

    @property
    def notes(self) -> tuple[Remark, ...]:
        """What a reader should know of the job, as far as its files tell before the ranks are read."""
        return self._notes({}, {})

    def _notes(self, steps: Mapping[int, int], problems: Mapping[Path, list[Note]]) -> tuple[Remark, ...]:
        groups: tuple[Iterable[Remark], ...] = (
            self._joining_notes,
            self._leading.restarts,
            exits.sentences(self.failures, self._launcher, self.attempt > 0),
            job_notes.absent(self.folders, self.ranks, self.missing),
            job_notes.mixed(self._folder_of),
            job_notes.unequal(steps),
            job_notes.unended(self.folders),
            self._damages(problems),
        )
        return tuple(dict.fromkeys(note for notes in groups for note in notes))

    def _damages(self, problems: Mapping[Path, list[Note]]) -> Iterator[Remark]:
        """Problems with the files, named with their folder where it is not the one that is shown."""
        for folder in self.folders:
            damages = list(dict.fromkeys([*folder.problems, *problems.get(folder.path, ())]))
            if len(damages) > PROBLEMS:
                damages[PROBLEMS:] = [Note("more-problems", {"count": len(damages) - PROBLEMS})]
            if folder is self._leading:
                yield from damages
            else:
                name = folder.path.name
                yield from (Note("of-folder", {"folder": name, "problem": damage}) for damage in damages)


# ---------------------------------------------------------------- joining


def join(paths: Sequence[Path]) -> Job:
    """The job whose folders these are; what cannot be read is left out, and said.

    Raises NoSuchRun or NotARun where no folder can be read, PerfdoctorError where two hold the same ranks.
    """
    folders: dict[Path, Folder] = {}
    unread: list[PerfdoctorError] = []
    for path in paths:
        try:
            folders[path.resolve()] = recorded.look(path)
        except (NoSuchRun, NotARun) as error:
            unread.append(error)
        except PermissionError as error:
            hint = "check the folder's owner"
            unread.append(PerfdoctorError(f"{path} may not be read: {error.strerror}", hint))
    if not folders:
        raise unread[0]
    return Job(tuple(folders.values()), [Note("unread-folder", {"error": str(error)}) for error in unread])


def of(path: Path, leading: bool = False) -> Job:
    """The job that a run is a part of, with the parts that lie beside it.

    With `leading`, a part that does not hold the lowest rank is taken alone: another one tells of all.
    """
    alone = join([path])
    (folder,) = alone.folders
    beside = _beside(folder)
    if not beside:
        return alone
    job = join([path, *beside])
    return _part(folder) if leading and job.ranks and job.ranks[0] not in folder.processes else job


def _part(folder: Folder) -> Job:
    """The run by itself, as a part of a job that is told of elsewhere."""
    alone = Job([folder])
    which = {"ranks": alone.ranks, "world": alone.world, "folder": job_notes.typed(folder.path)}
    return Job([folder], [Note("part-of-job", which)], part=True)


def siblings(path: Path) -> list[Path]:
    """Runs in the same folder that are parts of the same job: its identity, at the same time, other ranks."""
    return _beside(recorded.look(path))


def _beside(folder: Folder) -> list[Path]:
    if _identity(folder) is None or _is_whole(folder):
        return []
    here = folder.path.resolve()
    others: list[Path] = []
    with suppress(OSError):  # of whoever keeps the runs, not ours to look into
        others = [entry for entry in here.parent.iterdir() if entry.name != here.name]
    return [part.path for part in _together(folder, list(_candidates(others, _span_s(folder))))]


def grouped(runs: Mapping[Path, Json]) -> list[list[Path]]:
    """The runs, those of one job together, its lowest rank first; each job stands where its first run did.

    `runs`: what their run.json say.
    """
    jobs: dict[str | None, dict[Path, Folder]] = {}
    for path in meeting(runs):
        if _names_a_job(path):
            with suppress(NoSuchRun, NotARun, OSError):
                folder = recorded.look(path)
                jobs.setdefault(_identity(folder), {})[path] = folder
    alike = {path: parts for parts in jobs.values() for path in parts}
    groups: list[list[Path]] = []
    taken: set[Path] = set()
    for path in runs:
        if path not in taken:
            groups.append(_group(path, alike.get(path, {})))
            taken.update(groups[-1])
            for part in groups[-1]:
                alike.get(part, {}).pop(part, None)
    return groups


def _group(path: Path, alike: Mapping[Path, Folder]) -> list[Path]:
    """The runs of `alike`, which name one job, that belong to the one at `path`."""
    if path not in alike:
        return [path]
    others = [folder for other, folder in alike.items() if other != path]
    parts = [alike[path], *_together(alike[path], others)]
    return [part.path for part in sorted(parts, key=lambda part: min(_ranks(part), default=0))]


def _candidates(paths: Iterable[Path], wanted_s: tuple[float, float]) -> Iterator[Folder]:
    """The folders among `paths` that are runs of that time and of several ranks."""
    for path in paths:
        run = read_json(path / RUN)
        if run is not None and meet(span_s(path, run), wanted_s) and _names_a_job(path):
            with suppress(NoSuchRun, NotARun, OSError):
                yield recorded.look(path)


def _names_a_job(path: Path) -> bool:
    """Whether the boot records tell of a job of several ranks; those of a lone process never do."""
    try:
        return b'"world"' in regular_file.content(path / BOOT)
    except OSError:
        return False


def _together(folder: Folder, others: Sequence[Folder]) -> list[Folder]:
    """The others that are parts of the same job; of several for the same ranks, the nearest in time."""
    identity, own_s = _identity(folder), _span_s(folder)
    if identity is None or _is_whole(folder):
        return []
    known = [(abs(_span_s(other)[0] - own_s[0]), other) for other in others if _identity(other) == identity]
    taken, parts = _ranks(folder), []
    for _, other in sorted(known, key=lambda pair: pair[0]):
        if meet(_span_s(other), own_s) and taken.isdisjoint(_ranks(other)):
            taken |= _ranks(other)
            parts.append(other)
    return parts


def _jobs(folder: Folder) -> list[Json]:
    """The jobs that launchers named to the processes that trained; where none did, those that started."""
    jobs = [process.job for process in folder.processes.values()]
    return jobs or [job for boot in folder.boots if (job := recorded.told_job(boot))]


def _identity(folder: Folder) -> str | None:
    """What the launcher calls the job, which is the same text on each rank."""
    names = (job.get("id") for job in _jobs(folder))
    return next((name for name in names if isinstance(name, str) and name), None)


def _ranks(folder: Folder) -> set[int]:
    """The ranks that a folder is about, whether they recorded anything or not."""
    named = {whole(job, "rank") for job in _jobs(folder)} - {None}
    return {rank for rank in named if rank is not None} | folder.processes.keys()


def _is_whole(folder: Folder) -> bool:
    """Whether all ranks of the job are in this folder."""
    worlds = [whole(job, "world") or 1 for job in _jobs(folder)]
    return len(_ranks(folder)) >= max(worlds, default=1)


def _span_s(folder: Folder) -> tuple[float, float]:
    return span_s(folder.path, folder.run)


def _of_last_start(folders: Sequence[Folder], notes: list[Remark]) -> tuple[tuple[Folder, ...], int]:
    """The folders with those ranks only that are of the job's last start, and how many ranks that has.

    After a restart with other nodes, a rank is where it was started last. Raises PerfdoctorError where all
    ranks of a folder are in another one of the same time, too.
    """
    known = [
        (process.opened_epoch_s, process, folder)
        for folder in folders
        for process in folder.processes.values()
    ]
    known.sort(key=lambda entry: entry[0])
    held = {process.rank: (opened_s, folder) for opened_s, process, folder in known}
    world = _world([process for _, process, _ in known], [job for folder in folders for job in _jobs(folder)])
    kept = []
    for folder in folders:
        latest = {
            rank: process
            for rank, process in folder.processes.items()
            if rank < world and held[rank][1] is folder
        }
        gone = folder.processes.keys() - latest.keys()
        if gone and not latest:
            _check_rivals(folder, held[min(gone)])
        if gone:
            notes.append(Note("earlier-start", {"folder": folder.path.name, "ranks": sorted(gone)}))
        kept.append(replace(folder, processes=latest))
    return tuple(kept), world


def _check_rivals(folder: Folder, other: tuple[float, Folder]) -> None:
    """Raise PerfdoctorError where the other one, which began later, has the ranks of a run that still ran."""
    if other[1] is not folder and other[0] < _span_s(folder)[1]:
        raise PerfdoctorError(
            f"{folder.path} and {other[1].path} both hold {rank_list(folder.processes)}: "
            "they are not two parts of one job",
            "give one folder for each node: perfdoctor report NODE_A NODE_B ...",
        )


def _world(processes: Sequence[Process], jobs: Iterable[Json]) -> int:
    """How many ranks the job had when it was started last; `processes` are in the order of their starts."""
    worlds = [world for process in processes if (world := whole(process.job, "world") or 0) > process.rank]
    if not processes:
        return max((whole(job, "world") or 1 for job in jobs), default=1)
    return worlds[-1] if worlds else max(process.rank + 1 for process in processes)


def _failures(folders: Sequence[Folder], world: int) -> list[Json]:
    """Ranks whose end was noticed, by the time of day; launchers list theirs in another order.

    Of a folder of one rank of several, its command's end is the rank's.
    """
    timed = []
    for folder in folders:
        ranks, code, began_s = _ranks(folder), folder.run.get("exit_code"), _span_s(folder)[0]
        begin_ns = whole(folder.run, "begin_ns") or 0
        failures = list(folder.failures)
        if world > 1 and len(ranks) == 1 and not failures and isinstance(code, int) and code:
            (rank,) = ranks
            at_ns = folder.run.get("end_ns")
            failures = [{"event": exits.FAILED, "t_ns": at_ns, "rank": rank, "exitcode": code}]
        for line in failures:
            at_ns = whole(line, "t_ns")
            timed.append((inf if at_ns is None else began_s + (at_ns - begin_ns) / 1e9, line))
    return [line for _, line in sorted(timed, key=lambda entry: entry[0])]
