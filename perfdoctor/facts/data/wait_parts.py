"""Tells what a wait for a batch is made of, by where its stack is: in the sampler, the dataset, the queue."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfdoctor.facts.data.batch_stages import FETCH, QUEUE, UNPACKING, collates, polls, unpacks
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.library_table import of_wait
from perfdoctor.model.lines import WaitPart

LOADER = re.compile(r"torch[/\\]utils[/\\]data[/\\]dataloader\.py$")
SAMPLER = re.compile(r"torch[/\\]utils[/\\]data[/\\]sampler\.py$")
# Functions of the loader that it has workers for, or not; older Pythons do not tell the class of one.
WITH_WORKERS = re.compile(r"_MultiProcessing|(?:^|\.)_(?:(?:try_)?get_data|process_data|try_put_index)$")
ALONE = "_SingleProcess"
STARTS = re.compile(r"(?:^|\.)(?:__init__|_get_iterator|_shutdown_workers|__del__)$")


def of_main(frames: Sequence[Frame]) -> WaitPart:
    """The part that a stack of the training thread is in; `frames` are those below the wait's wrapper."""
    fetches = [index for index, frame in enumerate(frames) if FETCH.search(frame.file)]
    if fetches:
        return _making(frames[fetches[-1] + 1 :])
    loader = [frame for frame in frames if LOADER.search(frame.file)]
    starts = any(STARTS.search(frame.function) for frame in loader)
    if starts and not any(ALONE in frame.function for frame in loader):
        return WaitPart.WORKER_START
    if any(SAMPLER.search(frame.file) or frame.name == "_next_index" for frame in frames):
        return WaitPart.SAMPLER
    if polls(frames) and not unpacks(frames):
        return WaitPart.WORKERS
    has_workers = any(WITH_WORKERS.search(frame.function) for frame in loader)
    takes = any(QUEUE.search(frame.file) for frame in frames)
    return WaitPart.TRANSFER if has_workers or takes else WaitPart.LOADER


def of_worker(frames: Sequence[Frame]) -> WaitPart | None:
    """The part that a stack of a loader worker is in, or None where the worker itself waits."""
    fetches = [index for index, frame in enumerate(frames) if FETCH.search(frame.file)]
    if fetches:
        return _making(frames[fetches[-1] + 1 :])
    packs = any(QUEUE.search(frame.file) and frame.name == "_feed" for frame in frames)
    waits = packs and of_wait(frames[-1]) is not None and not UNPACKING.search(frames[-1].file)
    return WaitPart.TRANSFER if packs and not waits else None


def _making(frames: Sequence[Frame]) -> WaitPart:
    return WaitPart.COLLATE if any(collates(frame) for frame in frames) else WaitPart.DATASET
