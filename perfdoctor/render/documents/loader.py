"""A LoaderCurve as the public JSON document `perfdoctor.loader/1`, described by docs/loader.schema.json."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.loader_curve import LoaderCurve, Rate, WorkerSetting
from perfdoctor.model.measured import Location
from perfdoctor.render.documents.encoder import Document, Shape


@dataclass(frozen=True)
class LoaderRun:
    """The run that measured the loader."""

    command: tuple[str, ...]
    path: str
    outcome: str


def _run(curve: LoaderCurve) -> LoaderRun:
    return LoaderRun(curve.command, curve.path, curve.outcome)


def _samples_per_s(rate: Rate) -> float | None:
    return rate.samples_per_s or None


LOADER = Document(
    "perfdoctor.loader/1",
    LoaderCurve,
    "What `perfdoctor loader --json` prints. Seconds, bytes.",
    {
        LoaderCurve: Shape(
            "run usable_cores=cores ranks loader batch=cost settings judged best knee speedup headline"
            " because code notes",
            run=_run,
        ),
        Location: Shape("file line text"),
        WorkerSetting: Shape("* memory_bytes"),
        Rate: Shape(
            "batches seconds batches_per_s samples_per_s cpu_s_per_batch=cpu_s noise crowded=contention",
            samples_per_s=_samples_per_s,
        ),
    },
    lambda curve: curve.cwd,
)
document, dumps = LOADER.document, LOADER.dumps
