from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys

import jsonschema
import pytest

from tests.support import trace_files
from tests.support.paths import DOCS, ROOT

pytestmark = pytest.mark.process

SCHEMA = json.loads((DOCS / "trace.schema.json").read_text())
MS = 1000  # of the trace's microseconds


def training(steps=range(3, 8), busy_ms=60, name="ampere_bf16_s1688gemm_bf16_128x128"):
    """Events of steps of 100 ms: the device computes for `busy_ms`, then the host is inside DataLoader."""
    events, launch = [], 0
    for place, number in enumerate(steps):
        begin = 1_000_000 + place * 100 * MS
        events.append(trace_files.event("user_annotation", f"ProfilerStep#{number}", begin, 100 * MS, 1, 7))
        loading = begin + busy_ms * MS
        inside = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events.append(trace_files.event("user_annotation", inside, loading, (99 - busy_ms) * MS, 1, 7))
        for part in range(10):
            launch += 1
            at = begin + part * busy_ms * MS // 10
            events.append(trace_files.op("aten::mm", at, 20))
            events.append(trace_files.call(ts=at + 5, dur=5, correlation=launch))
            events.append(trace_files.kernel(name, at + 12, busy_ms * MS // 10, launch))
    return events


def text(**about):
    return trace_files.in_lines(
        training(), deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}], **about
    )


@pytest.fixture
def trace(folder):
    return trace_files.save(folder, text(), "t.json")


def test_the_page_says_what_the_device_waits_for(trace, perfdoctor):
    shown = perfdoctor("trace", "t.json")
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert any("waits for data" in line for line in shown.stdout.splitlines()[:5])


def test_html_is_a_file_of_the_same_page_and_stands_alone(folder, trace, perfdoctor):
    shown = perfdoctor("trace", str(trace), "--html", "trace.html")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    page = (folder / "trace.html").read_text()
    assert "Device work" in page
    assert "NVIDIA A100-SXM4-40GB" in page
    compared = perfdoctor("trace", "--compare", str(trace), str(trace), "--html", "both.html")
    assert compared.returncode == 0, compared.stderr
    assert (folder / "both.html").read_text().endswith("</html>")
    assert perfdoctor("trace", str(trace), "--html", "x.html", "--json").returncode == 2
    assert not (folder / "x.html").exists()


def test_json_obeys_the_schema_and_holds_what_was_measured(trace, perfdoctor):
    document = json.loads(perfdoctor("trace", "--json", "t.json").stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["bottleneck"]["verdict"] == "data"
    assert document["bottleneck"]["share"] == pytest.approx(0.4, abs=0.02)
    (rank,) = document["ranks"]
    assert [step["name"] for step in rank["steps"]] == [f"ProfilerStep#{number}" for number in range(3, 8)]
    assert rank["dataloader_us"] == 5 * 39 * MS
    assert rank["kernels"][0]["count"] == 50


def test_a_folder_has_an_entry_for_each_rank(folder, perfdoctor):
    (folder / "ranks").mkdir()
    for rank in (1, 0):
        trace_files.save(folder / "ranks", text(), f"rank{rank}.trace.json.gz")
    document = json.loads(perfdoctor("trace", "ranks", "--json").stdout)
    assert [entry["rank"] for entry in document["ranks"]] == [0, 1]
    assert "2 ranks" in perfdoctor("trace", "ranks").stdout


def test_of_the_recordings_of_one_worker_in_a_folder_the_latest_is_shown(folder, perfdoctor):
    (folder / "log").mkdir()
    for stamp, steps in ((1623143089861, range(3, 8)), (1623143099861, range(13, 18))):
        name = f"host_12.{stamp}.pt.trace.json"
        trace_files.save(folder / "log", trace_files.in_lines(training(steps)), name)
    shown = perfdoctor("trace", "log")
    assert "1623143099861" in shown.stdout
    assert "ranks" not in shown.stdout.splitlines()[2]
    assert "left out 1 earlier recording of the same workers in log" in shown.stderr


def test_without_a_path_it_is_the_newest_runs_window(saved, perfdoctor):
    run = saved("20260102-030405-train")
    trace_files.save(run, text(), "trace.rank0.0.json")
    assert "trace.rank0.0.json" in perfdoctor("trace").stdout
    assert "trace.rank0.0.json" in perfdoctor("trace", "20260102-030405-train").stdout
    assert "trace.rank0.0.json" in perfdoctor("trace", str(run)).stdout
    assert "trace.rank0.0.json" in perfdoctor("trace", str(run.parent)).stdout
    trace_files.save(run.parent, text(), "profiled.json")
    assert (
        "profiled.json" in perfdoctor("trace", str(run.parent)).stdout
    )  # traces of the user's own come first


def test_what_to_try_names_the_run_of_a_window_or_has_the_script_named(saved, folder, perfdoctor):
    in_float32 = trace_files.in_lines(
        training(busy_ms=99, name="ampere_sgemm_128x64_tn"),
        deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}],
    )
    run = saved()
    trace_files.save(run, in_float32, "trace.rank0.0.json")
    window = f"{run}/trace.rank0.0.json"
    wide = os.environ | {"COLUMNS": "200"}
    assert re.search(r"try +perfdoctor try --\S+\n", perfdoctor("trace", window, env=wide).stdout)
    saved("29990101-000000-other", started_epoch_s=4e9)
    told = perfdoctor("trace", run.name, env=wide).stdout
    assert re.search(rf"try +perfdoctor try --\S+ --run {run.name}\n", told)
    trace_files.save(folder, in_float32, "apart.json")
    told = perfdoctor("trace", "apart.json", env=wide).stdout
    assert re.search(r"try +perfdoctor try --\S+ -- train.py\n", told)


def test_a_run_without_a_window_says_so(saved, perfdoctor):
    saved()
    shown = perfdoctor("trace")
    assert shown.returncode == 2
    assert "no trace was recorded" in shown.stderr


@pytest.mark.shows("damaged-trace")
def test_a_file_that_was_cut_off_is_shown_as_far_as_it_goes(folder, perfdoctor):
    whole = text()
    trace_files.save(folder, whole[: len(whole) // 2], "cut.json")
    packed = gzip.compress(whole.encode())
    (folder / "cut.json.gz").write_bytes(packed[: len(packed) // 2])
    for name in ("cut.json", "cut.json.gz"):
        shown = perfdoctor("trace", name, "--json")
        assert shown.returncode == 0, name
        document = json.loads(shown.stdout)
        assert document["ranks"][0]["kernels"]
        assert document["ranks"][0]["skipped"]["because"]


def test_without_device_or_steps_the_page_says_what_cannot_be_told(folder, perfdoctor):
    trace_files.save(
        folder, trace_files.in_lines([trace_files.op(ts=100 * number) for number in range(50)]), "cpu.json"
    )
    shown = perfdoctor("trace", "cpu.json")
    assert shown.returncode == 0
    assert "no work of a device" in shown.stdout
    assert "no step" in shown.stdout


BAD = {
    "empty": b"",
    "text": b"hello",
    "json": b'{"a": 1}',
    "list": b"[1, 2, 3]",
    "binary": bytes(range(256)) * 10,
    "wide": '{"traceEvents": []}'.encode("utf-16"),
    "no-events": b'{"traceEvents": []}',
    "short-gzip": gzip.compress(b"{}")[:12],
    "damaged-gzip": b"\x1f\x8b" + b"x" * 50,
}


@pytest.mark.shows("damaged-trace")
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("option", [(), ("--json",), ("--perfetto", "out.json")])
def test_what_is_no_trace_is_one_sentence_and_nothing_is_written(folder, perfdoctor, name, option):
    (folder / "bad.json").write_bytes(BAD[name])
    shown = perfdoctor("trace", "bad.json", *option)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith("perfdoctor: ")
    assert "bad.json" in shown.stderr
    assert len(shown.stderr.splitlines()) <= 2
    assert [path.name for path in folder.iterdir()] == ["bad.json"]


def test_what_is_not_there_is_one_sentence(folder, perfdoctor):
    shown = perfdoctor("trace", "nowhere.json")
    assert shown.returncode == 2
    assert "no file, folder or run called nowhere.json" in shown.stderr


def test_two_files_of_one_rank_are_refused(folder, perfdoctor):
    for name in ("a.json", "b.json"):
        trace_files.save(folder, text(distributedInfo={"rank": 3, "world_size": 8}), name)
    shown = perfdoctor("trace", "a.json", "b.json")
    assert shown.returncode == 2
    assert "a.json and b.json both belong to rank 3" in shown.stderr


def test_files_of_different_steps_are_refused(folder, perfdoctor):
    trace_files.save(folder, text(), "rank0.json")
    trace_files.save(folder, trace_files.in_lines(training(range(20, 25))), "rank1.json")
    shown = perfdoctor("trace", "rank0.json", "rank1.json")
    assert shown.returncode == 2
    assert "rank0.json" in shown.stderr
    assert "rank1.json" in shown.stderr


def test_a_comparison_shows_what_changed_and_is_there_as_json(folder, trace, perfdoctor):
    trace_files.save(folder, trace_files.in_lines(training(busy_ms=30)), "after.json")
    shown = perfdoctor("trace", "--compare", "t.json", "after.json")
    assert shown.returncode == 0
    assert "per step" in shown.stdout
    document = json.loads(perfdoctor("trace", "--compare", "t.json", "after.json", "--json").stdout)
    assert document["schema"] == "perfdoctor.trace-comparison/1"
    assert document["kernels"][0]["grown_us"] == pytest.approx(-30 * MS)


def test_a_comparison_takes_nothing_else(trace, perfdoctor):
    shown = perfdoctor("trace", "t.json", "--compare", "t.json", "t.json")
    assert shown.returncode == 2
    assert "--compare takes exactly two traces" in shown.stderr


def test_the_merged_trace_holds_every_event_and_our_process(folder, trace, perfdoctor):
    shown = perfdoctor("trace", "t.json", "--perfetto", "out.json.gz")
    assert shown.returncode == 0
    assert shown.stdout == ""
    assert "wrote out.json.gz" in shown.stderr
    merged = json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))["traceEvents"]
    original = json.loads(trace.read_text())["traceEvents"]
    assert [event for event in merged if event in original] == original
    assert any(event["args"].get("name") == "perfdoctor" for event in merged if event["ph"] == "M")


def test_a_merge_says_that_a_trace_of_the_cpu_has_no_track_of_a_device(folder, perfdoctor):
    trace_files.save(folder, trace_files.in_lines([trace_files.op()]), "t.json")
    shown = perfdoctor("trace", "t.json", "--perfetto", "out.json")
    assert shown.returncode == 0
    assert "wrote out.json with no track of a device" in shown.stderr


def test_a_window_is_merged_with_what_its_run_recorded(saved, folder, perfdoctor):
    run = saved()
    trace_files.save(run, text(), "trace.rank0.0.json")
    window = {"event": "window", "index": 0, "kind": "plain", "file": "trace.rank0.0.json"}
    marks = {"ProfilerStep#3": 5_000_000_000}
    (run / "events.rank0.jsonl").write_text(json.dumps(window | {"annotation_ns": marks}) + "\n")
    host = [
        {"t_ns": 5_000_000_000 + at, "procs": [{"pid": 1, "role": "main", "cpu_s": at / 1e9}]}
        for at in (0, 1_000_000_000)
    ]
    (run / "host.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in host))
    shown = perfdoctor("trace", "--perfetto", "out.json")
    assert shown.returncode == 0, shown.stderr
    events = json.loads((folder / "out.json").read_text())["traceEvents"]
    (cores,) = [event for event in events if event["name"] == "CPU cores, training process"]
    assert cores["args"]["value"] == pytest.approx(1.0)
    assert cores["ts"] == 1_000_000


@pytest.mark.parametrize(
    "words", [("--json", "--markdown"), ("--perfetto", "out.json", "--json")], ids=" ".join
)
def test_what_does_not_go_together_is_said(trace, folder, perfdoctor, words):
    shown = perfdoctor("trace", "t.json", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "leave out" in shown.stderr
    assert not (folder / "out.json").exists()


def test_a_merge_is_of_one_trace(folder, perfdoctor):
    for rank in range(2):
        trace_files.save(folder, text(), f"rank{rank}.json")
    shown = perfdoctor("trace", "rank0.json", "rank1.json", "--perfetto", "out.json")
    assert shown.returncode == 2
    assert "name one: perfdoctor trace rank0.json --perfetto out.json" in shown.stderr
    assert not (folder / "out.json").exists()


def test_a_window_of_several_ranks_is_exported_as_the_hint_says(saved, folder, perfdoctor):
    run = saved()
    for rank in range(2):
        trace_files.save(run, text(), f"trace.rank{rank}.0.json")
    told = perfdoctor("export", "--format", "perfetto", "--to", "out.json")
    assert told.returncode == 2
    assert not (folder / "out.json").exists()
    (typed,) = re.findall(r"name one: perfdoctor (.*)", told.stderr)
    assert perfdoctor(*shlex.split(typed)).returncode == 0
    assert (folder / "out.json").exists()


def test_an_export_that_cannot_be_written_names_its_own_option(saved, perfdoctor):
    path = trace_files.save(saved(), text(), "trace.rank0.0.json.gz")
    told = perfdoctor("export", "--format", "perfetto", "--to", str(path))
    assert "is the trace itself\n  name another place: --to FILE" in told.stderr


def test_a_comparison_refuses_what_it_would_drop(trace, perfdoctor):
    shown = perfdoctor("trace", "--compare", "t.json", "t.json", "--all")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "--compare and --all cannot be combined" in shown.stderr


def test_a_window_is_one_of_a_run(trace, perfdoctor):
    shown = perfdoctor("trace", "t.json", "--window", "7")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "perfdoctor trace RUN --window 7" in shown.stderr


def test_runs_that_are_elsewhere_are_listed_from_there(perfdoctor):
    assert "perfdoctor runs --out 'o p'" in perfdoctor("trace", "nosuch", "--out", "o p").stderr


@pytest.mark.shows("huge-trace")
def test_a_file_over_the_limit_is_refused(trace, perfdoctor):
    shown = perfdoctor("trace", "t.json", "--limit-gb", "0.000001")
    assert shown.returncode == 2
    assert "--limit-gb" in shown.stderr
    assert perfdoctor("trace", "t.json", "--limit-gb", "inf").returncode == 0


def test_torch_is_not_imported(trace, folder):
    code = (
        "import sys\n"
        "from perfdoctor.cli import app\n"
        "try: app.start(['trace', 't.json'])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    root = str(ROOT)
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert shown.stderr == "False\n"


@pytest.mark.shows("terminal-text")
def test_names_in_the_trace_reach_no_terminal_unescaped(folder, perfdoctor):
    evil = training(name="\x1b[31mgemm\x07[bold]")
    trace_files.save(folder, trace_files.in_lines(evil), "evil.json")
    for words in (("evil.json",), ("--compare", "evil.json", "evil.json"), ("evil.json", "--top", "50")):
        shown = perfdoctor("trace", *words)
        assert shown.returncode == 0
        assert "\x1b" not in shown.stdout
        assert "\x07" not in shown.stdout
    assert "\\x1b[31mgemm" in perfdoctor("trace", "evil.json").stdout
