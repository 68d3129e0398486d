from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from perfdoctor.model.concluded import Bottleneck, OtherTime
from perfdoctor.model.flame import DifferenceFrame, Flame, FlameDifference, FlameFrame, RunDifference
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.ranks import WaitsOverTime
from perfdoctor.model.timeline import Excerpt, SampleChart, SampledCurve, StepBins, Timeline
from perfdoctor.model.trial import Setting, Variant
from perfdoctor.model.waterfall import Lane, LaneStretch, Waterfall
from perfdoctor.render import text
from perfdoctor.render.html.report import html
from perfdoctor.render.page import Headline, Paragraph
from tests.support import reports, trial_results
from tests.support.job_facts import job, rank

VOID = {"meta", "br", "input"}
DRAWN = {"path", "rect", "svg"}
PANELS = [
    "verdict", "step", "changes", "phases", "machine", "loader", "lines", "notes", "not-judged", "measured",
]  # fmt: skip
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m\u202egpj.exe\x00"

STEPS = StepBins(
    (3.0, 10.0, 20.0, 27.0),
    {Phase.DATA_WAIT: (0.03, 0.04, 0.03), Phase.FORWARD: (0.02, 0.02, 0.02)},
    (0.06, 4.0, 0.06),
    400,
    0,
)
CPU = SampleChart(
    "CPU",
    "cores",
    (0.0, 10.0, 20.0),
    (SampledCurve("training process", (1.0, None), (1.5, None)),),
    limit=4.0,
)
TIMELINE = Timeline(31.2, STEPS, (CPU,), {"Device": "no accelerator was sampled"})
NOTHING = Timeline(0.0, None, (), {"CPU": "no two samples of it were taken"})


FLAMES = (
    Flame(
        "Training process",
        1000,
        0.05,
        (
            FlameFrame("forward", "", "phase", 0, 0.0, 0.75, 750),
            FlameFrame(HOSTILE, f"{HOSTILE}.py:3", "user", 1, 0.0, 0.75, 750),
            FlameFrame("linear", "torch/nn/functional.py", "torch", 2, 0.0, 0.5, 500),
            FlameFrame("9 narrow frames", "", "folded", 2, 0.5, 0.01, 10),
        ),
    ),
)


class Outline(HTMLParser):
    """What a page holds, read strictly: every element that is opened is closed, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.section = ""
        self.texts: dict[str, str] = {}
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.in_svg: list[list[str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self.section = dict(attrs)["id"] or ""
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "svg":
            self.in_svg.append([])
        elif "svg" in self.open:
            self.in_svg[-1].append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "section":
            self.section = ""

    def handle_data(self, data):
        self.texts[self.section] = self.texts.get(self.section, "") + data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def hostile():
    """The starved run with a hostile text wherever a script, a function or a file is named."""
    at = Location(f"/home/ada/{HOSTILE}.py", 3, HOSTILE, HOSTILE)
    finding = reports.WORKERS
    advice = replace(finding.advice, at=(at,), code=HOSTILE, because=(HOSTILE,), tweak=HOSTILE)
    report = replace(
        reports.STARVED,
        run=replace(reports.RUN, command=("python", HOSTILE), device=HOSTILE, cwd=HOSTILE),
        findings=(replace(finding, title=HOSTILE, advice=advice),),
        notes=(HOSTILE,),
        path=HOSTILE,
        job=replace(job(), ranks=(rank(0, node=HOSTILE, ended=HOSTILE),)),
    )
    chart = replace(CPU, name=HOSTILE, curves=(replace(CPU.curves[0], name=HOSTILE),))
    return report, replace(TIMELINE, charts=(chart,)), {(at.file, 3): Excerpt(2, (HOSTILE, HOSTILE))}


def test_every_panel_is_there_and_says_something():
    outline = Outline(html(reports.STARVED, TIMELINE))
    assert [attributes["id"] for attributes in outline.of("section")] == PANELS
    for panel in PANELS:
        heading, _, rest = outline.texts[panel].strip().partition("\n")
        assert heading
        assert rest.strip(), panel
    first = outline.texts["verdict"]
    assert "Training waits for data: 61% of its time" in first
    assert "confidence: high" in first
    assert "about 2.6× as fast" in first
    changes = outline.texts["changes"]
    for shown in ("train.py:41", "num_workers=3", "perfdoctor try --workers 3", "2.3× faster (1.8–2.6×)"):
        assert shown in changes
    assert "data wait" in outline.texts["step"]
    assert "no accelerator was sampled" in outline.texts["machine"]


def test_the_step_of_a_job_says_of_which_rank_it_is():
    assert "One step of rank 0: " in html(replace(reports.STARVED, job=job()), TIMELINE)
    assert "One step: " in html(reports.STARVED, TIMELINE)


@pytest.mark.parametrize("report", [reports.STARVED, replace(reports.STARVED, job=job())])
def test_it_is_readable_without_eyes_and_without_a_mouse(report):
    outline = Outline(html(report, TIMELINE))
    assert outline.headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(outline.headings))
    assert all(attributes["scope"] in ("row", "col") for attributes in outline.of("th"))
    pictures = [
        inside
        for inside, attributes in zip(outline.in_svg, outline.of("svg"), strict=True)
        if attributes.get("aria-hidden") != "true" and attributes.get("class") != "frame"
    ]
    assert pictures
    assert all(inside[0] == "title" and DRAWN & set(inside) for inside in pictures)
    regions = [attributes for attributes in outline.of("div") if attributes.get("role") == "region"]
    assert regions
    assert all(attributes["tabindex"] == "0" and attributes["aria-label"] for attributes in regions)


@pytest.mark.shows("html", "sockets")
def test_it_asks_for_nothing_and_runs_its_own_script_only():
    report, timeline, excerpts = hostile()
    page = html(report, replace(timeline, flames=FLAMES), excerpts)
    outline = Outline(page)
    policy = next(meta for meta in outline.of("meta") if meta.get("http-equiv"))["content"] or ""
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    scripts = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(digests) == 2
    assert f"script-src {' '.join(repr(f'sha256-{digest}') for digest in digests)};" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "url(" not in style
    assert "@import" not in style
    allowed = {"html", "head", "body", "header", "main", "section", "article", "figure", "figcaption", "meta",
               "title", "style", "h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "table", "thead",
               "tbody", "tr", "th", "td", "div", "span", "b", "br", "code", "pre", "svg", "desc", "rect", "path",
               "text", "label", "input", "button", "script", "output", "mark"}  # fmt: skip
    assert {tag for tag, _ in outline.elements} <= allowed
    for _, attributes in outline.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert not attributes.keys() & {"style", "src", "href", "xlink:href", "srcset", "action"}


def test_each_frame_lies_where_its_samples_are_and_says_whose_code_it_is():
    page = html(reports.STARVED, replace(TIMELINE, flames=FLAMES))
    outline = Outline(page)
    frames = [shape for shape in outline.of("svg") if shape.get("class") == "frame"]
    assert [(frame["x"], frame["width"], frame["y"]) for frame in frames] == [
        ("0.00%", "75.00%", "0"),
        ("0.00%", "75.00%", "18"),
        ("0.00%", "50.00%", "36"),
        ("50.00%", "1.00%", "36"),
    ]
    assert "<title>linear (torch/nn/functional.py): 50%, torch</title>" in page
    for told in ("◇ linear", "… 9 narrow frames", "1,000 stack samples, 50 s"):
        assert told in outline.texts["stacks"]
    assert 'class="tools" hidden' in page


def test_without_charts_and_stack_samples_there_is_no_script_and_none_is_allowed():
    page = html(reports.STARVED, NOTHING)
    assert "<script" not in page
    assert "script-src" not in page


@pytest.mark.shows("html")
def test_names_that_are_hostile_stay_text():
    report, timeline, excerpts = hostile()
    page = html(report, replace(timeline, flames=FLAMES), excerpts)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    outline = Outline(page)
    shown = HOSTILE.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e").replace("\x00", r"\x00")
    for panel in ("", "changes", "machine", "stacks", "ranks", "notes", "measured"):
        assert shown in outline.texts[panel], panel
    page.encode()  # no half of a surrogate pair either


@pytest.mark.shows("odd-names", "html")
def test_a_name_that_is_no_text_can_be_written():
    report = replace(reports.STARVED, run=replace(reports.RUN, command=("python", "\udcff.py")))
    assert r"\udcff.py" in html(report, TIMELINE).encode().decode()


def test_without_a_step_the_page_says_so_and_shows_the_rest():
    texts = Outline(html(reports.NO_STEPS, NOTHING)).texts
    assert "No step was seen" in texts["step"]
    assert "No step was recorded" in texts["phases"]
    assert "no two samples" in texts["machine"]
    assert "Python 3.11.7" in texts["measured"]


def test_a_rank_that_is_missing_is_told_and_the_others_are_shown():
    whole = job()
    part = replace(whole, ranks=whole.ranks[:5] + whole.ranks[6:], missing=(5,))
    outline = Outline(html(replace(reports.STARVED, job=part), TIMELINE))
    assert "rank 5 left no record" in outline.texts["ranks"]
    assert "3, straggler" in outline.texts["ranks"]
    assert len([inside for inside in outline.of("td") if inside.get("class") == "wide"]) == 7


def test_the_second_bar_of_the_step_says_what_the_verdict_counts():
    page = html(reports.STARVED, TIMELINE)
    step = Outline(page).texts["step"]
    assert re.search(r"charged to\s+data 61%\s+host 4%\s+compute 35%", step)
    assert re.findall(r'class="class-(\w+)" x="([\d.]+)" y="0" width="([\d.]+)"', page) == [
        ("data", "0.0", "61.0"),
        ("host", "61.0", "4.0"),
        ("compute", "65.0", "35.0"),
    ]
    unknown = replace(reports.STARVED, diagnosis=replace(reports.STARVED.diagnosis, classes={}))
    assert "charged to" not in html(unknown, TIMELINE)


def test_what_other_is_charged_to_stands_below_the_bars_where_they_seem_to_disagree():
    rest = OtherTime({Bottleneck.COMPUTE: 0.4, Bottleneck.HOST: 0.02})
    computing = replace(reports.STARVED, diagnosis=replace(reports.DIAGNOSIS, other=rest))
    told = "other (42% of the step) counts as compute 40%, host 2%; with the other phases: data 61%"
    assert told in Outline(html(computing, TIMELINE)).texts["step"]
    assert "counts as" not in html(reports.STARVED, TIMELINE)


def test_what_the_cursor_reads_is_in_the_page_and_nothing_in_it_ends_its_script():
    page = html(*hostile()[:2])
    (held,) = re.findall('<script type="application/json" id="over-time">(.*?)</script>', page, re.DOTALL)
    values = json.loads(held)
    assert values["end"] == 31.2
    phases, cpu = values["charts"]
    assert phases["edges"] == [3.0, 10.0, 20.0, 27.0]
    assert len(phases["curves"]) == 3  # two phases, and the longest step
    assert phases["curves"][-1] == [0.06, 4.0, 0.06]
    assert cpu["curves"] == [[1.0, None]]


def test_times_in_which_steps_were_watched_at_a_cost_are_marked():
    steps = replace(STEPS, windows_s=((10.0, 20.0),))
    page = html(reports.STARVED, replace(TIMELINE, steps=steps))
    assert "watched at a cost" in Outline(page).texts["phases"]
    assert re.search(r'class="window" d="M320\.5 200V195\.0H641\.0', page)
    assert "watched at a cost" not in html(reports.STARVED, TIMELINE)


@pytest.mark.parametrize(
    ("steps_a_row", "said", "not_said"),
    [
        (1, "longest step of each bin, so that no spike is averaged away", "mean of up to"),
        (
            32,
            "longest mean of up to 32 steps of each bin: a run as long as this is recorded in rows",
            "no spike",
        ),
    ],
)
def test_the_line_above_the_phases_is_only_called_longest_step_where_steps_are_known(
    steps_a_row, said, not_said
):
    page = html(reports.STARVED, replace(TIMELINE, steps=replace(STEPS, steps_a_row=steps_a_row)))
    phases = Outline(page).texts["phases"]
    assert said in phases
    assert not_said not in phases


def test_what_was_tried_stands_beside_what_was_predicted():
    tried = replace(trial_results.FASTER, variant=Variant((Setting("workers", ("--workers", "3"), {}, ""),)))
    page = html(reports.STARVED, TIMELINE, trials=[trial_results.trial(tried, trial_results.UNCLEAR)])
    texts = Outline(page).texts
    assert re.search(r"measured\s+.*1\.9× \(1\.8–2\.0×\)", texts["changes"], re.DOTALL)
    gain = text.gain(reports.STARVED.findings[0].gain)  # as the terminal says it
    assert gain in texts["changes"]
    assert "faster: 1.9× (1.8–2.0×)" in texts["changes"]
    assert "--amp" in texts["trials"]
    assert 'id="trials"' not in html(reports.STARVED, TIMELINE)


def test_a_window_of_the_profiler_has_a_panel_of_its_own():
    window = [[Headline("One step: 606 ms", level=5), Paragraph(HOSTILE)]]
    texts = Outline(html(reports.STARVED, TIMELINE, window=window)).texts
    assert "One step: 606 ms" in texts["inside"]
    assert "</script>" in texts["inside"]


def test_neither_a_thousand_ranks_nor_a_full_set_of_flame_graphs_make_the_file_too_large():
    shares = tuple(tuple(0.5 * ((rank + part) % 2) for part in range(40)) for rank in range(1_000))
    waits = WaitsOverTime(tuple(range(1_000)), tuple(90.0 * part for part in range(41)), shares, shares)
    frame = FlameFrame("n" * 60, "p" * 60, "library", 1, 0.123456, 0.123456, 123_456, 12_345, 1_234)
    both = DifferenceFrame("n" * 60, "p" * 60, "library", 1, 0.123456, 0.123456, 0.123, 0.456, True)
    flames = [Flame("threads", 1_000_000, 0.05, (frame,) * most) for most in (400, 200, 200)]
    differences = [FlameDifference("threads", 0.1, 0.2, (9, 9), True, (both,) * most) for most in (400, 200)]
    over_time = replace(
        TIMELINE,
        waits=waits,
        flames=tuple(flames),
        difference=RunDifference("earlier", {}, {}, tuple(differences)),
    )
    page = html(replace(reports.STARVED, job=job(1_000, nodes=125, slow=777)), over_time)
    assert len(page) < 1_500_000
    assert "968 ranks that wait less" in page
    assert "the 64 slowest ranks are listed" in page
    assert "777, straggler" in page


def test_steps_are_drawn_beside_what_workers_do_at_the_same_time():
    lanes = (
        Lane("training process", (LaneStretch("data_wait", 0.0, 0.03), LaneStretch("forward", 0.03, 0.06))),
        Lane("worker 0", (LaneStretch("read", 0.01, 0.05), LaneStretch("collate", 0.05, 0.06))),
    )
    fall = Waterfall(41, (0.06,), lanes, 0, workers=9)
    page = html(reports.STARVED, replace(TIMELINE, waterfall=fall))
    shown = Outline(page).texts["step"]
    for told in ("worker 0", "Step 42 of the run", "1 of 9 loader workers are listed", "and collates them"):
        assert told in shown
    assert re.search(r'class="batch-read" x="16\.667" y="0" width="66\.666"', page)


def test_a_spike_is_never_averaged_away():
    page = html(reports.STARVED, TIMELINE)
    assert "one spike ends that would be higher: up to 4 s" in page
    assert "400 steps are put together in 3 bins" in Outline(page).texts["phases"]


def test_the_source_around_a_line_is_shown_with_the_line_marked():
    around = Excerpt(40, ("    model = build()", f"    {reports.WORKERS.advice.at[0].text}", "\tfor x in y:"))
    page = html(reports.STARVED, TIMELINE, {("/home/ada/digits/train.py", 41): around})
    lines = re.findall(
        r"<li( class=\"meant\")?><span class=\"line-number\">(\d+)</span><code>(.*?)</code>", page
    )
    assert [(bool(meant), number) for meant, number, _ in lines][:3] == [
        (False, "40"),
        (True, "41"),
        (False, "42"),
    ]
    assert lines[0][2] == "model = build()"


def test_the_end_for_want_of_memory_has_a_panel_of_its_own():
    page = html(reports.OUT_OF_MEMORY, TIMELINE)
    assert "Out of memory on cuda:0, in step 13" in page
    assert "loss.backward()" in page
    assert "batches of 96 would have fitted up to here (instead of 128)" in page
    assert 'id="memory"' not in html(reports.STARVED, TIMELINE)
