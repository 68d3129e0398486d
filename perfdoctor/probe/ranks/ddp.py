"""Exchanges of gradients by DistributedDataParallel: in C++, bucket by bucket, while backward goes on.

torch keeps the times of the exchange if asked to, on the CPU at the cost of reading a clock: when the first
bucket set out, when the rank had nothing left to compute, when the last bucket was back. They are read where
that can matter, and estimated in between (sync_estimate.py). On a device it would wait for the device; so
there the exchange is only counted.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Tuple

from ...wire.collective_rows import ALL_REDUCE, DDP, ESTIMATED, UNTIMED
from ...wire.events.ranks import BucketsEvent
from ...wire.step_rows import BACKWARD, GRAD_SYNC
from .. import patch
from ..recorder import Recorder, clock, wall_clock
from .exchange import GradientSync
from .sync_estimate import SyncEstimate

EVERY, NEVER = 1, 1 << 30  # of so many backward passes, torch times one
COUNTED = 0  # the kind under which exchanges are numbered, apart from all-reduces that the script calls
SIZES_MAX = 256  # buckets whose sizes are told
MAP_BYTES = 4  # in the map of used parameters, for each of them


class _Model:
    """One DistributedDataParallel."""

    def __init__(self, model: Any, number: int, group: Tuple[int, int], timed: bool) -> None:
        self.model = weakref.ref(model)
        self.number = number
        self.group, self.ranks = group
        self.timed = timed
        self.estimate = SyncEstimate()
        self.rebuilt: Any = None  # whether the buckets are as the first backward filled them
        self.sizes: List[int] = []  # of the buckets, in bytes
        self.buckets = 0  # collectives of an exchange
        self.searches = bool(model.find_unused_parameters and not model.static_graph)
        parameters = sum(1 for parameter in model.parameters() if parameter.requires_grad)
        self.bytes = self.map_bytes = MAP_BYTES * parameters if self.searches else 0  # after the last bucket


class Gradients:
    """The exchanges of one process, from the begin of a backward pass to its end."""

    def __init__(self, exchange: GradientSync) -> None:
        self.exchange = exchange
        self.models: List[_Model] = []
        self.made = 0
        self.expected: List[Tuple[_Model, Any]] = []  # exchanges that the backward under way should make
        self.begin = 0
        self.before_backward = patch.part("gradients", self._before_backward)
        self.after_backward = patch.part("gradients", self._after_backward)

    def watch(self, model: Any) -> None:
        """Record the exchanges of a model: with torch's times where those cost little and print nothing."""
        distributed = self.exchange.distributed
        group = self.exchange.group(model.process_group)
        if group is None or getattr(model, "_use_python_reducer", False):
            return  # the latter exchanges by calls that are seen as such
        timed = (
            getattr(model, "device_type", None) == "cpu"
            and distributed.get_debug_level() != distributed.DebugLevel.DETAIL
        )
        self.made += 1
        self.models = [known for known in self.models if known.model() is not None]
        self.models.append(_Model(model, self.made, group, timed))

    def _before_backward(self, recorder: Recorder) -> None:
        """Note who will exchange: each model whose last forward was not inside `no_sync`."""
        expected = self.expected = []
        for known in self.models:
            model = known.model()
            if model is not None and model.require_forward_param_sync:
                expected.append((known, model))
                if known.timed:  # now and not for good: the next forward would collect all of it once more
                    model.reducer._set_ddp_runtime_logging_sample_rate(EVERY)
        if expected:
            self.begin = recorder.since
            known = expected[0][0]
            sequence = self.exchange.sequences.get(known.group << 3 | COUNTED, 0)
            collective = ALL_REDUCE, known.group, known.ranks, sequence, known.bytes
            self.exchange.show(recorder, collective, self.begin)

    def _after_backward(self, recorder: Recorder) -> None:
        """Write a row for each exchange, and move what it blocked the rank from backward to grad_sync."""
        if not self.expected:
            return
        end = recorder.since
        expected, self.expected = self.expected, []
        self.exchange.hide()
        for known, model in expected:
            if known.timed:
                if known.estimate.must_read(end - self.begin) or len(expected) > 1:
                    self._timed(recorder, known, model.logger, end)
                else:
                    lead, tail, wait = known.estimate.estimate(end - self.begin)
                    recorder.move(BACKWARD, GRAD_SYNC, wait)
                    self._write(recorder, known, self.begin + lead, end - tail, wait, DDP | ESTIMATED)
                model.reducer._set_ddp_runtime_logging_sample_rate(NEVER)
            else:
                if not known.sizes:
                    self._read_buckets(known, model.logger._get_ddp_logging_data())
                self._write(recorder, known, self.begin, end, 0, DDP | UNTIMED)
        self.exchange.own_ns += clock() - end

    def _timed(self, recorder: Recorder, known: _Model, logger: Any, pass_end: int) -> None:
        """The exchange as torch timed it, by the time of day."""
        logger.set_runtime_stats_and_log()  # as the next forward would do, too late for the row of this one
        logging_data = logger._get_ddp_logging_data()
        numbers: Dict[str, int] = logging_data.ints_map
        rebuilt = numbers.get("has_rebuilt_buckets", 0)
        if rebuilt != known.rebuilt:
            known.rebuilt = rebuilt
            self._read_buckets(known, logging_data)
        ahead = wall_clock() - clock()
        begin = numbers.get("backward_comm_time_start", 0) - ahead
        end = numbers.get("backward_comm_time_end", 0) - ahead
        if not self.begin <= begin <= end:  # this backward did not go through this model
            known.estimate.is_mixed = True
        else:
            computed = numbers["backward_compute_time_end"] - ahead
            wait = max(0, end - max(begin, computed))
            recorder.move(BACKWARD, GRAD_SYNC, wait)
            self._write(recorder, known, begin, end, wait, DDP)
            known.estimate.learn(pass_end - self.begin, begin - self.begin, max(0, pass_end - end), wait)

    def _write(self, recorder: Recorder, known: _Model, begin: int, end: int, wait: int, flags: int) -> None:
        sequence = self.exchange.next(COUNTED, known.group)
        collective = ALL_REDUCE, known.group, known.ranks, sequence, known.bytes
        self.exchange.add(recorder, collective, begin, end, wait, flags, known.buckets)

    def _read_buckets(self, known: _Model, logging_data: Any) -> None:
        """The sizes of the buckets, which torch fills anew after the first backward."""
        words = logging_data.strs_map
        listed = words.get("rebuilt_bucket_sizes") or words.get("bucket_sizes") or ""
        known.sizes = [int(word) for word in listed.split(",") if word.strip().isdigit()]
        known.bytes = sum(known.sizes) + known.map_bytes
        known.buckets = len(known.sizes) + known.searches
        self.exchange.session.write(
            BucketsEvent(
                model=known.number,
                group=known.group,
                timed=known.timed,
                searches=known.searches,
                count=len(known.sizes),
                sizes=known.sizes[:SIZES_MAX],
            )
        )
