from __future__ import annotations

import pytest

from perfdoctor.facts.host import resources
from perfdoctor.facts.host.ranks_apart import RanksApart
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.summary import TimedStep
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.script import DeviceEvent
from tests.support.facts import loader, run, step
from tests.support.records import MS, records, rows, update

SECOND = 1000 * MS


def sample(t, *procs, **more):
    return {
        "t_ns": t * SECOND,
        "procs": [dict(zip(("pid", "role", "cpu_s"), proc, strict=True)) for proc in procs],
        **more,
    }


def window(seconds=10.0):
    found = find(rows([update(seconds * 100)] * 10, begin_ms=0.000001))
    assert found is not None
    return MeasuredSpan.of(found)


def cpu_of(host, samples, of_step, of_loader, apart=0.0):
    timed, apart = TimedStep(of_step), RanksApart(apart)
    return resources.cpu_facts(records(run={"host": host}), samples, samples, timed, of_loader, apart)


def gpus_of(rows, device="A100", backend="cuda", events=()):
    trained_on = [DeviceEvent(backend=backend, name=device)]
    recorded, of_run = records(gpus=rows, events=events), run(device=device)
    used = resources.used_devices(recorded, of_run, window())
    return resources.gpu_facts(recorded, of_run, window(), used, trained_on)


def device_rows(utilisation, name="A100", used=40.0, uuid=""):
    """Two samples of a device with 80 GB."""
    row = {"utilisation": utilisation, "name": name, "power_w": 100.0, "uuid": uuid}
    memory = {"memory_used_bytes": used * 1e9, "memory_total_bytes": 80e9}
    return tuple({"t_ns": t * SECOND, **row, **memory} for t in (1, 2))


def trained(*devices, uuids=None):
    return {"event": "trained_devices", "devices": list(devices), "uuids": uuids or [""] * len(devices)}


def test_only_samples_between_the_first_step_and_the_last_count():
    assert [
        entry["t_ns"] // SECOND for entry in resources.inside([sample(t) for t in (0, 3, 9, 11)], window())
    ] == [3, 9]


def test_workers_that_come_and_go_are_all_counted():
    samples = [
        sample(1, (5, "worker", 1.0)),
        sample(2, (6, "worker", 0.5)),
        sample(3, (6, "worker", 1.5), (5, "main", 9.0)),
    ]
    assert resources.growth(samples, "cpu_s", {"worker"}) == pytest.approx(0.75)


def test_a_process_brings_nothing_from_before_it_had_its_role():
    samples = [sample(1, (5, "other", 3.25)), sample(2, (5, "main", 3.5)), sample(3, (5, "main", 4.0))]
    assert resources.growth(samples, "cpu_s", {"main"}) == pytest.approx(0.375)


def test_children_that_no_sample_saw_are_no_other_programs():
    def of(ended, worker):
        samples = [
            sample(t, (1, "main", 9.0), (10 + t, "worker", worker * t), machine_busy_cores=1.5)
            for t in range(1, 6)
        ]
        for t, entry in enumerate(samples, 1):
            entry["procs"][0]["ended_children_cpu_s"] = ended * t
        return cpu_of({"usable_cores": 2}, samples, step(forward=10, cpu=6), loader(workers=1))

    assert of(ended=0.9, worker=0.0).other_cores == pytest.approx(0.0)
    assert of(ended=0.9, worker=0.0).busy_cores == pytest.approx(1.5)
    assert of(ended=0.4, worker=0.0).other_cores == pytest.approx(0.5)


def test_children_are_counted_once_whether_a_sample_saw_them_or_not():
    samples = [
        sample(t, (1, "main", 9.0), (2, "worker", t * 0.5), machine_busy_cores=2.0) for t in range(1, 6)
    ]
    for entry in samples:
        entry["procs"][0]["ended_children_cpu_s"] = 0.0
    found = cpu_of({"usable_cores": 4}, samples, step(forward=10, cpu=10), loader(workers=1))
    assert found.other_cores == pytest.approx(0.5)


def test_workers_of_other_ranks_that_have_ended_are_counted_once():
    samples = []
    for t in range(1, 10):  # each rank's worker keeps one core busy and starts anew every three seconds
        epoch, age = divmod(t, 3)
        mains = [(1 + rank, "main", 0.0, rank, 3.0 * epoch) for rank in (0, 1)]
        workers = [(10 * (1 + rank) + epoch, "worker", 1.0 * age, rank, 0.0) for rank in (0, 1)]
        names = ("pid", "role", "cpu_s", "rank", "ended_children_cpu_s")
        procs = [dict(zip(names, each, strict=True)) for each in (*mains, *workers)]
        samples.append({"t_ns": t * SECOND, "procs": procs, "machine_busy_cores": 3.0})
    found = resources.cpu_facts(
        records(run={"host": {"usable_cores": 8}}),
        resources.of_rank(samples, 0),
        samples,
        TimedStep(step(forward=10, cpu=0)),
        loader(workers=1),
        RanksApart(0.0),
    )
    assert found.busy_cores == pytest.approx(2.0)
    assert found.other_cores == pytest.approx(1.0)


def test_ranks_that_were_watched_apart_are_no_other_programs():
    samples = [sample(t, (1, "main", 1.0 * t), machine_busy_cores=3.5) for t in range(1, 9)]

    def of(apart):
        return cpu_of({"usable_cores": 4}, samples, step(forward=10, cpu=10), None, apart)

    assert (of(0.0).busy_cores, of(0.0).other_cores) == pytest.approx((1.0, 2.5))
    assert (of(2.0).busy_cores, of(2.0).other_cores) == pytest.approx((3.0, 0.5))
    assert (of(None).busy_cores, of(None).other_cores) == (pytest.approx(1.0), None)


def test_processes_of_the_run_that_are_not_listed_are_no_other_programs():
    samples = [
        sample(t, (1, "main", 1.0 * t), machine_busy_cores=7.0, left_out=4 * (t > 1)) for t in range(1, 9)
    ]
    found = cpu_of({"usable_cores": 8}, samples, step(forward=10, cpu=10), None)
    assert found.other_cores is None
    assert not found.crowded


@pytest.mark.parametrize(
    ("usable", "whole", "worth"), [(16, 8.0, 10.0), (4, 4.0, 4.0)]
)  # the latter by a quota
def test_a_hyper_thread_adds_little_to_the_work_of_its_core(usable, whole, worth):
    samples = [sample(1, (1, "main", 1.0), usable_cores=usable, machine_cores=16, whole_cores=8)]
    found = cpu_of({}, samples, step(forward=10, cpu=10), None)
    assert (found.usable_cores, found.whole_cores, found.worth_cores) == (usable, whole, worth)
    shared = resources.share_of(found, 2)
    assert (shared.usable_cores, shared.worth_cores) == (usable / 2, worth / 2)


def test_where_the_machine_tells_of_no_hyper_threads_every_core_is_whole():
    found = cpu_of({"usable_cores": 16}, [], step(forward=10, cpu=10), None)
    assert (found.whole_cores, found.worth_cores) == (None, 16)


def test_samples_in_another_order_tell_nothing_of_children():
    samples = [sample(t, (1, "main", 9.0), machine_busy_cores=2.0) for t in (3, 4, 5, 6, 3)]
    for entry in samples:
        entry["procs"][0]["ended_children_cpu_s"] = 1.0
    found = cpu_of({"usable_cores": 4}, samples, step(forward=10, cpu=10), loader(workers=1))
    assert found.usable_cores == 4


def test_nothing_sampled_is_not_zero():
    assert resources.growth([], "cpu_s", {"main"}) is None
    assert resources.growth([sample(1), sample(2)], "cpu_s", {"main"}) is None


def test_the_steps_own_clock_tells_the_main_process_and_samples_tell_the_others():
    samples = [
        sample(t, (1, "main", 9.0), (2, "worker", t * 0.5), machine_busy_cores=3.0) for t in range(1, 6)
    ]
    found = cpu_of(
        {"usable_cores": 4, "limited_by": "cgroup quota"},
        samples,
        step(forward=10, cpu=15),
        loader(workers=1),
    )
    assert (found.main_cores, found.worker_cores, found.busy_cores) == pytest.approx((1.5, 0.5, 2.0))
    assert found.other_cores == pytest.approx(1.0)
    assert found.limited_by == "cgroup quota"


def test_a_short_run_takes_the_workers_from_their_own_clock():
    found = cpu_of({"usable_cores": 4}, [], step(forward=10, cpu=10), loader(workers=2, batch=6))
    assert found.worker_cores == pytest.approx(0.6)
    assert found.other_cores is None


def test_busy_cores_never_exceed_usable_ones():
    assert cpu_of({"usable_cores": 2}, [], step(forward=10, cpu=50), None).busy_cores == 2


def test_an_unknown_number_of_cores_is_a_reason():
    assert cpu_of({}, [], step(forward=1), None) == Missing("the number of usable cores is not known")


def test_memory_is_the_largest_sum_over_the_tree():
    samples = [
        {"procs": [{"private_bytes": 5, "rss_bytes": 9}, {"private_bytes": amount, "rss_bytes": 1}]}
        for amount in (1, 7, 2)
    ]
    found = resources.memory_facts([*samples, {"memory": {"total_bytes": 100}, "shm": {"free_bytes": 50}}])
    assert (found.private_bytes, found.peak_rss_bytes, found.shared_bytes) == (12, 10, None)
    assert (found.total_bytes, found.shm_free_bytes) == (100, 50)


def process(private, shared, pss=None):
    return {"private_bytes": private, "shared_bytes": shared, "rss_bytes": private + shared, "pss_bytes": pss}


def test_a_page_that_processes_share_is_held_once():
    """Before the fork the dataset is private; afterwards it is shared by three."""
    samples = [
        {"procs": [process(500, 100, 560)]},
        {"procs": [process(100, 500, 270), process(10, 500, 200), process(10, 500, 200)]},
        {"procs": [process(500, 100), process(10, 500), {"rss_bytes": 9}]},  # not all of one moment
    ]
    assert resources.memory_facts(samples).most_bytes == 670
    assert resources.memory_facts(samples[2:]).most_bytes == 1010
    old = [{"procs": [process(500, 100), process(0, 90)]}]  # no proportional sets yet: not more than resident
    assert resources.memory_facts(old).most_bytes == 600


def test_workers_share_what_they_were_forked_with_and_count_no_anonymous_memory():
    procs = [{"role": role, "anonymous_bytes": 7} for role in ("main", "rank", "worker")]
    assert resources.memory_facts([{"procs": procs}]).anonymous_bytes == 14


def test_disk_rates():
    samples = [
        {"t_ns": t * SECOND, "procs": [{"pid": 1, "role": "main", "read_bytes": t * 10}]} for t in (1, 2, 3)
    ]
    assert resources.disk_facts(samples).read_bytes_per_s == pytest.approx(10)
    assert resources.disk_facts(samples).written_bytes_per_s is None
    assert isinstance(resources.disk_facts([]), Missing)


def test_devices_that_idle_are_not_those_in_use():
    def rows_of(utilisation, name):
        return tuple(
            {"t_ns": t * SECOND, "utilisation": utilisation, "name": name, "power_w": 100.0} for t in (1, 2)
        )

    found = gpus_of({0: rows_of(0.0, "idle"), 1: rows_of(0.5, "busy")})
    assert (found.names, found.utilisation, found.power_w) == (("busy",), 0.5, 100.0)


def test_devices_that_others_keep_busy_are_not_those_that_train():
    shared = {0: device_rows(0.9, uuid="GPU-aa-1"), 1: device_rows(0.4, uuid="GPU-bb-2")}
    assert gpus_of(shared).utilisation == pytest.approx(0.65)
    assert gpus_of(shared, events=[trained(1)]).utilisation == 0.4
    # a script may number devices in its own way: CUDA_VISIBLE_DEVICES set inside it
    assert gpus_of(shared, events=[trained(0, uuids=["BB-2"])]).utilisation == 0.4
    assert gpus_of(shared, events=[trained(0), trained(0, 1)]).utilisation == pytest.approx(0.65)


def test_facts_of_devices_are_about_those_that_train():
    everybodys = {0: device_rows(0.9), 1: device_rows(0.4)}
    recorded = records(gpus=everybodys, events=[trained(1)])
    used = resources.used_devices(recorded, run(device="A100"), window())
    assert list(used) == [1]
    assert resources.used_devices(recorded, run(), window()) == {}  # the CPU trained


def test_a_rank_has_devices_of_its_own():
    used = {0: device_rows(0.9), 1: device_rows(0.9)}
    (rank,) = records(events=[trained(1)]).ranks.values()
    assert list(resources.own_devices(used, rank)) == [1]
    (rank,) = records(events=[]).ranks.values()
    assert list(resources.own_devices(used, rank)) == [0, 1]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([trained(7)], id="not-sampled"),
        pytest.param([trained(1, uuids=["cc-3"])], id="another-one"),
        pytest.param([trained("x")], id="garbage"),
    ],
)
def test_where_it_is_not_known_what_trains_every_busy_device_does(events):
    shared = {0: device_rows(0.9, uuid="GPU-aa-1"), 1: device_rows(0.4, uuid="GPU-bb-2")}
    assert gpus_of(shared, events=events).utilisation == pytest.approx(0.65)


def test_a_device_is_free_if_nobody_computes_there_or_keeps_its_memory():
    others = {1: device_rows(0.0, used=0.5), 2: device_rows(0.8, used=0.5), 3: device_rows(0.0, used=60.0)}
    assert gpus_of({0: device_rows(0.9), **others}, events=[trained(0)]).free == 1
    assert gpus_of({0: device_rows(0.9)}, events=[trained(0)]).free == 0
    unknown = {1: ({"t_ns": SECOND, "utilisation": None, "name": "A100"},)}
    assert gpus_of({0: device_rows(0.9), **unknown}, events=[trained(0)]).free is None


def test_a_metric_that_the_driver_lacks_keeps_its_reason():
    row = {"t_ns": SECOND, "utilisation": None, "reasons": {"utilisation": "not supported"}}
    found = gpus_of({0: (row,)})
    assert found.utilisation is None
    assert found.reasons == {"utilisation": "not supported"}
    assert gpus_of({0: (row,)}, device="cpu") is None
    assert gpus_of({}) == Missing("no accelerator was sampled: neither NVML nor amdsmi told of one")
    assert gpus_of({}, "mps", "mps").reason.endswith("perfdoctor reads no counters of mps devices")


def test_the_most_memory_that_was_used_is_that_of_any_sample():
    rows = {0: tuple({"t_ns": at * 10**9, "utilisation": 0.5, "memory_used_bytes": at} for at in (1, 3, 2))}
    assert gpus_of(rows).memory_peak_bytes == 3


def test_the_least_memory_that_was_left_counts_a_containers_limit_too():
    samples = [
        sample(
            t,
            shm={"total_bytes": 64, "free_bytes": free},
            memory={"total_bytes": 1000, "available_bytes": left, "limit_left_bytes": limit},
        )
        for t, free, left, limit in [(1, 60, 500, None), (2, 10, 450, 300), (3, 50, 480, 320)]
    ]
    found = resources.memory_facts(samples)
    assert not isinstance(found, Missing)
    assert (found.shm_bytes, found.shm_free_bytes, found.available_bytes) == (64, 10, 300)
    samples[1]["memory"]["limit_left_bytes"] = samples[2]["shm"]["free_bytes"] = 0
    found = resources.memory_facts(samples)
    assert (found.shm_free_bytes, found.available_bytes) == (0, 0)  # nothing is left, which is known


@pytest.mark.parametrize(
    ("machine", "usable", "others"), [(64, 4, 0.0), (64, 48, 3.0), (24, 4, 0.0), (20, 20, 19.0)]
)
def test_beyond_a_quota_others_take_only_what_idle_cores_do_not_leave(machine, usable, others):
    samples = [
        sample(t, (1, "main", t * 1.0), machine_busy_cores=20.0, machine_cores=machine, usable_cores=usable)
        for t in range(1, 6)
    ]
    found = cpu_of({"usable_cores": usable}, samples, step(forward=10, cpu=10), None)
    assert found.other_cores == pytest.approx(others)
