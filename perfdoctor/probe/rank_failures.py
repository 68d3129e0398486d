"""Which of the ranks that this process started failed."""

from __future__ import annotations

from typing import Any, Callable

from ..wire.events.process import RankFailedEvent
from ..wire.names import AGENT
from . import patch
from .on_import import on_import
from .wrapping import Args, always


def watch_failures(append: Callable[..., None]) -> None:
    """In the process that started ranks, write down each one that failed: the launcher exits 1 for any."""

    def failed(token: Any, args: Args, result: Any) -> None:
        failure = args[0]
        code = int(failure.exitcode)
        append(
            RankFailedEvent(
                local_rank=failure.local_rank,
                pid=failure.pid,
                exitcode=code,
                signal=-code if code < 0 else None,
            ),
            file=AGENT,
        )

    def watch(module: Any) -> None:
        patch.wrap(module.ProcessFailure, "__post_init__", always, failed, "rank_failed")

    on_import("torch.distributed.elastic.multiprocessing.errors", patch.guarded("rank_failed", watch))
