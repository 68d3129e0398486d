"""The HTML report as its reader has it: in a browser, from a disk, by mouse and by keyboard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.flame import (
    DifferenceFrame,
    Flame,
    FlameDifference,
    FlameFrame,
    RunDifference,
    ThreadUse,
)
from perfdoctor.model.loader_curve import LoaderCurve, Rate, WorkerSetting
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.ranks import WaitsOverTime
from perfdoctor.model.timeline import Excerpt, SampleChart, SampledCurve, StepBins, Timeline
from perfdoctor.model.waterfall import Lane, LaneStretch, Waterfall
from perfdoctor.render.html.report import html
from perfdoctor.render.page import Headline, Paragraph
from tests.support import browser as browsers
from tests.support import reports, trial_results
from tests.support.job_facts import job

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(browsers.missing() is not None, reason=str(browsers.missing())),
]

HOSTILE = "</script><img src=x onerror=document.title='owned'>[bold red]\x1b[31m\u202egpj.exe"
WIDTHS = (1280, 390)
BINS = 200

CONTRAST = """
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const over = (colours) => {
      canvas.clearRect(0, 0, 1, 1);
      for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
      return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => {
      const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const poor = [];
    for (const element of document.body.querySelectorAll('*:not(svg *, script, style)')) {
      const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      if (!own || !element.getClientRects().length) continue;
      const below = [];
      for (let one = element; one; one = one.parentElement) below.unshift(getComputedStyle(one).backgroundColor);
      const [ground, ink] = [over(below), over([...below, getComputedStyle(element).color])].map(light);
      const ratio = (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
      if (ratio < 4.5) poor.push(element.outerHTML.slice(0, 120) + ' ' + ratio.toFixed(2));
    }
    return poor;
"""
NAMELESS = """
    const named = (element) => (element.getAttribute('aria-label') || element.textContent || '').trim()
      || (element.getAttribute('aria-labelledby') || '').split(' ').some((id) => document.getElementById(id))
      || (element.labels && element.labels.length);
    const wrong = [];
    for (const element of document.querySelectorAll('button, input, section, article, [role]:not([role=status]), [tabindex="0"]'))
      if (!named(element)) wrong.push(element.outerHTML.slice(0, 120));
    for (const picture of document.querySelectorAll('svg[role=img]'))
      if (picture.firstElementChild.tagName !== 'title') wrong.push(picture.outerHTML.slice(0, 120));
    const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
    if (new Set(ids).size !== ids.length) wrong.push('an id that stands twice');
    const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map((element) => Number(element.tagName[1]));
    if (levels.filter((level) => level === 1).length !== 1) wrong.push('not one h1');
    levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) wrong.push('a level is left out'); });
    if (!document.documentElement.lang) wrong.push('no language');
    return wrong;
"""


def timeline(name="train.py", function="main"):
    edges = tuple(float(edge) for edge in range(BINS + 1))
    steps = StepBins(
        edges,
        {Phase.DATA_WAIT: (0.03,) * BINS, Phase.FORWARD: (0.02,) * BINS},
        (*((0.06,) * 100), 4.0, *((0.06,) * 99)),
        40_000,
        0,
        ((20.0, 30.0),),
    )
    cpu = SampledCurve(name, tuple(float(place % 4) for place in range(BINS)), (4.0,) * BINS)
    frames = (
        FlameFrame("forward", "", "phase", 0, 0.0, 0.75, 750, 200, 50),
        FlameFrame(function, f"{name}:3", "user", 1, 0.0, 0.75, 750, 200, 50),
        FlameFrame("linear", "torch/nn/functional.py", "torch", 2, 0.0, 0.5, 500),
        FlameFrame("wait", "threading.py", "library", 2, 0.5, 0.25, 250, 200, 50),
        FlameFrame("backward", "", "phase", 0, 0.75, 0.25, 250),
    )
    lanes = (
        Lane("training process", (LaneStretch("data_wait", 0.0, 0.03), LaneStretch("forward", 0.03, 0.06))),
        Lane("worker 0", (LaneStretch("read", 0.0, 0.05), LaneStretch("collate", 0.05, 0.06))),
        Lane("exchange", (LaneStretch("exchange", 0.04, 0.06, name),)),
    )
    device = (
        Lane("host, operators", (LaneStretch("operators", 0.0, 0.03),)),
        Lane("device, kernels", (LaneStretch("compute", 0.01, 0.06),)),
    )
    both = (
        DifferenceFrame("forward", "", "phase", 0, 0.0, 0.8, 0.03, 0.05, True),
        DifferenceFrame(function, name, "user", 1, 0.0, 0.8, 0.03, 0.05, True),
        DifferenceFrame("backward", "", "phase", 0, 0.8, 0.2, 0.015, 0.005, True),
    )
    difference = RunDifference(
        name,
        {Phase.FORWARD: 0.03, Phase.BACKWARD: 0.015},
        {Phase.FORWARD: 0.05, Phase.BACKWARD: 0.005},
        (FlameDifference("Training process", 0.045, 0.055, (400, 500), True, both),),
    )
    shares = ((0.5,) * 20, (0.0,) * 20)
    waits = WaitsOverTime((0, 1), tuple(map(float, range(21))), shares, shares[::-1])
    charts = (SampleChart("CPU", "cores", edges, (cpu,), limit=4.0),)
    flames = (Flame("Training process", 1000, 0.05, frames),)
    absent = {"Device": "no accelerator was sampled"}
    return Timeline(
        float(BINS),
        steps,
        charts,
        absent,
        flames,
        threads=(ThreadUse(name, 1000, 200, 50),),
        on_core=0.5,
        without_core=0.25,
        difference=difference,
        waterfall=Waterfall(41, (0.06,), lanes, 0, workers=1),
        device_waterfall=Waterfall(0, (0.06,), device, 0, window=name),
        waits=waits,
    )


def curve(name):
    rates = {workers: Rate(100, 10.0 / (1 + workers), 0.05, 8.0, 0.001) for workers in (0, 2)}
    settings = tuple(WorkerSetting(workers, warm=rate) for workers, rate in rates.items())
    return LoaderCurve(name, "/home/ada", (name,), 4.0, 1, "whole", 0, None, settings, knee=2, headline=name)


def made(name=None):
    """A page with every panel; `name` stands wherever something of the user's is named."""
    report = replace(reports.STARVED, job=job())
    at, window = report.findings[0].advice.at[0], [[Headline("One step", level=5), Paragraph(name or "mm")]]
    if name is not None:
        at = Location(f"/home/ada/{name}.py", 41, name, name)
        advice = replace(report.findings[0].advice, at=(at,), code=name, because=(name,))
        report = replace(
            report,
            run=replace(report.run, command=("python", name), id=name, cwd=name),
            findings=(replace(report.findings[0], advice=advice),),
            notes=(name,),
            path=name,
            job=replace(job(), nodes=(name,)),
        )
    excerpts = {(at.file, at.line): Excerpt(40, (name or "x = 1", at.text or "", "y = 2"))}
    trials = [trial_results.trial(trial_results.FASTER)]
    over_time = timeline(name or "train.py", name or "main")
    return html(report, over_time, excerpts, trials, window, curve(name or "2 workers are enough"))


@pytest.fixture(scope="module")
def window():
    with browsers.started() as browser:
        yield browser


@pytest.fixture
def opened(window, tmp_path):
    """Opens a page in a window of a size; what came before is forgotten."""

    def show(page, width=1280, dark=False):
        file = tmp_path / "a report.html"
        file.write_text(page)
        window.look(width, dark=dark)
        window.said(), window.asked_for()
        window.open(file)
        return window

    return show


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_with_every_panel_and_asks_for_nothing_else(opened, width, dark):
    browser = opened(made(), width, dark)
    assert browser.said() == []
    asked = [url for url in browser.asked_for() if not url.startswith("data:")]
    assert len(asked) == 1
    assert asked[0].startswith("file://")
    empty = browser.run(
        "return [...document.querySelectorAll('section')].filter((panel) => panel.innerText.trim().length < 20"
        " || panel.offsetHeight < 40).map((panel) => panel.id)"
    )
    assert empty == []
    for chart in (
        "#step svg.lane rect",
        "#inside svg.lane rect",
        "#phases .plot path",
        "#machine .plot path",
        "#difference .bar rect",
        "#difference svg.frame",
        "#loader .curve rect",
        "#stacks td rect",
        "#stacks svg.frame",
        "#ranks .waits rect",
        "#trials rect",
    ):
        assert (
            browser.run("return document.querySelector(arguments[0]).getBoundingClientRect().width", chart)
            > 0
        )
    assert browser.run("return document.documentElement.scrollWidth") == width
    grounds = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert grounds == ("rgb(15, 19, 24)" if dark else "rgb(255, 255, 255)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everything_has_a_name_and_all_text_stands_out(opened, dark):
    browser = opened(made(), 1280, dark)
    assert browser.run(NAMELESS) == []
    assert browser.run(CONTRAST) == []


def test_the_verdict_the_step_and_the_first_finding_stand_on_the_first_screen(opened):
    browser = opened(made())
    for panel in ("#verdict", "#step", "#card-1"):
        assert (
            browser.run("return document.querySelector(arguments[0]).getBoundingClientRect().bottom", panel)
            < 900
        )


def test_a_mouse_reads_all_charts_at_once_and_zooms_them_together(opened):
    from selenium.webdriver import ActionChains

    browser = opened(made())
    plots = browser.driver.find_elements("css selector", ".plot")
    assert len(plots) == 2
    browser.run("arguments[0].scrollIntoView({block: 'center'})", plots[0])
    wide = plots[0].size["width"]
    ActionChains(browser.driver).move_to_element_with_offset(plots[0], wide // 4, 0).perform()
    readings = browser.run("return [...document.querySelectorAll('output')].map((one) => one.textContent)")
    assert readings == ["30 ms", "20 ms", "60 ms", readings[3]]
    assert readings[3] in "0123"
    assert browser.run("return document.querySelector('.tools .span').textContent").startswith("at 15")
    ActionChains(browser.driver).move_to_element_with_offset(
        plots[0], -wide // 4, 0
    ).click_and_hold().move_by_offset(wide // 4, 0).release().perform()
    boxes = browser.run(
        "return [...document.querySelectorAll('.plot svg')].map((one) => one.getAttribute('viewBox'))"
    )
    assert len(set(boxes)) == 1
    begin, _, length, _ = map(float, boxes[0].split())
    assert (begin, length) == pytest.approx((250, 250), abs=5)
    assert browser.run("return document.querySelector('.axis').textContent")
    browser.driver.find_element("css selector", "[data-act=all]").click()
    assert (
        browser.run("return document.querySelector('.plot svg').getAttribute('viewBox')")
        == "0.000 0 1000.000 200"
    )


def test_the_keyboard_does_all_that_the_mouse_does(opened):
    from selenium.webdriver import Keys

    browser = opened(made())
    plot = browser.driver.find_element("css selector", ".plot")
    plot.send_keys(Keys.END, Keys.ARROW_LEFT)
    heard = browser.run("return document.querySelector('.heard').textContent")
    assert heard.startswith("at 199 s, the whole run: data wait 30 ms, forward 20 ms")
    plot.send_keys("+", "+")
    length = float(
        browser.run("return document.querySelector('.plot svg').getAttribute('viewBox')").split()[2]
    )
    assert length == pytest.approx(250)
    plot.send_keys(Keys.ESCAPE)
    assert (
        browser.run("return document.querySelector('.plot svg').getAttribute('viewBox')")
        == "0.000 0 1000.000 200"
    )


def test_arrow_keys_lead_to_the_nearest_bin_from_where_a_chart_has_none(opened):
    from selenium.webdriver import ActionChains, Keys

    drawn = timeline()
    edges = tuple(20.0 + 0.3 * place for place in range(BINS + 1))  # steps from 20 to 80 s of 200
    browser = opened(html(reports.STARVED, replace(drawn, steps=replace(drawn.steps, edges_s=edges))))
    plot = browser.driver.find_element("css selector", ".plot")
    wide = plot.size["width"]

    def after(at_s, *keys):
        """Where the cursor is when these keys were pressed with it at a moment."""
        offset = round((at_s / 200 - 0.5) * wide)
        ActionChains(browser.driver).move_to_element_with_offset(plot, offset, 0).perform()
        plot.send_keys(*keys)
        said = browser.run("return document.querySelector('.timed .span').textContent")
        return said.partition(",")[0]

    plot.send_keys(Keys.ARROW_LEFT)  # from the middle of the run
    assert browser.run("return document.querySelector('.timed .span').textContent").startswith("at 80 s")
    assert after(190, Keys.ARROW_LEFT) == "at 80 s"
    assert after(190, Keys.ARROW_RIGHT) == "at 190 s"
    assert after(190, Keys.END) == "at 80 s"
    assert after(4, Keys.ARROW_RIGHT) == after(4, Keys.HOME) == "at 20 s"
    assert after(4, Keys.ARROW_LEFT) == "at 4 s"


HIDDEN = "return [...arguments[0].querySelectorAll('.frame')].filter((one) => one.getAttribute('display') === 'none').length"
WIDE = "return [...arguments[0].querySelectorAll('.frame')].map((one) => Math.round(parseFloat(one.getAttribute('width'))))"


@pytest.mark.parametrize(
    ("panel", "wanted", "said", "frames"),
    [
        ("#stacks", "linear", "1 frame, 50.0% of the samples", 5),
        ("#difference", "ward", "2 frames, 100.0% of what is drawn", 3),
    ],
)
def test_stacks_are_searched_and_zoomed_by_mouse_and_keyboard(opened, panel, wanted, said, frames):
    from selenium.webdriver import Keys

    browser = opened(made())
    flame = browser.driver.find_element("css selector", f"{panel} .flame")
    search = flame.find_element("css selector", "input")
    search.send_keys(wanted)
    assert flame.find_element("css selector", ".found").text == said
    assert len(flame.find_elements("css selector", ".frame.hit")) == int(said[0])
    search.send_keys(Keys.ESCAPE)
    assert not flame.find_elements("css selector", ".frame.hit")
    drawn = flame.find_elements("css selector", ".frame")
    assert len(drawn) == frames
    drawn[-1].send_keys(Keys.ENTER)
    assert browser.run(HIDDEN, flame) > 0
    drawn[-1].send_keys(Keys.ESCAPE)
    assert browser.run(HIDDEN, flame) == 0
    drawn[0].click()
    assert browser.run(HIDDEN, flame) == 1  # what is beside it


@pytest.mark.parametrize(
    ("panel", "wanted", "frames"),
    [
        ("#stacks", "code", 0),
        ("#stacks", "waiting", 0),
        ("#stacks", "75%", 0),
        ("#stacks", "threading.py", 1),
        ("#difference", "a step", 0),
        ("#difference", "train.py", 1),
    ],
)
def test_search_finds_names_and_places_and_not_what_the_page_says_of_them(opened, panel, wanted, frames):
    flame = opened(made()).driver.find_element("css selector", f"{panel} .flame")
    flame.find_element("css selector", "input").send_keys(wanted)
    assert len(flame.find_elements("css selector", ".frame.hit")) == frames


SHOWN = (
    "return [...document.querySelectorAll('#stacks .frame')]"
    ".filter((one) => one.getAttribute('display') !== 'none')"
    ".map((one) => one.querySelector('title').textContent.split(':')[0])"
)


def test_zooming_shows_a_frame_with_its_callers_and_what_it_calls_however_narrow(opened):
    """Rounded to what the page says of their places, one of two neighbours ends behind the begin of the other."""
    left, wide = 0.123351, 0.001051
    widths = (("run", 0, 0.0, 1.0), ("a", 1, left, wide), ("of a", 2, left, wide))
    widths += (("b", 1, left + wide, wide), ("of b", 2, left + wide, wide), ("c", 1, 0.2, 0.5))
    frames = tuple(
        FlameFrame(name, "", "user", depth, at, width, round(1e5 * width))
        for name, depth, at, width in widths
    )
    flames = (Flame("Training process", 100_000, None, frames),)
    browser = opened(html(reports.STARVED, replace(timeline(), flames=flames)))
    drawn = browser.driver.find_elements("css selector", "#stacks .frame")
    for clicked, shown in ((3, ["run", "b", "of b"]), (2, ["run", "a", "of a"]), (5, ["run", "c"])):
        browser.run("arguments[0].dispatchEvent(new MouseEvent('click'))", drawn[clicked])
        assert browser.run(SHOWN) == shown


def test_stacks_are_shown_by_what_the_thread_was_at(opened):
    from selenium.webdriver.support.select import Select

    browser = opened(made())
    flame = browser.driver.find_element("css selector", "#stacks .flame")
    show = Select(flame.find_element("css selector", "select"))
    assert browser.run(WIDE, flame) == [75, 75, 50, 25, 25]
    show.select_by_visible_text("running")
    assert browser.run(WIDE, flame) == [67, 67, 67, 0, 33]
    show.select_by_visible_text("waiting")
    assert browser.run(WIDE, flame) == [100, 100, 0, 100, 0]
    assert browser.run(HIDDEN, flame) == 2
    flame.find_element("css selector", "button").click()
    assert browser.run(WIDE, flame) == [75, 75, 50, 25, 25]
    assert show.first_selected_option.text == "all samples"
    assert len(flame.find_elements("css selector", ".frame.rests")) == 1


@pytest.mark.shows("html")
def test_names_never_become_part_of_the_page(opened):
    browser = opened(made(HOSTILE))
    assert browser.said() == []
    assert browser.run("return document.images.length + document.querySelectorAll('[onerror]').length") == 0
    assert browser.run("return document.title").startswith("script><img src=x")
    shown = browser.run("return document.body.innerText")
    assert shown.count("<img src=x onerror=document.title='owned'>[bold red]\\x1b[31m\\u202egpj.exe") > 8
    assert browser.run("return document.querySelectorAll('output').length") == 4


def test_it_can_be_read_without_its_script(opened):
    browser = opened(made().replace("script-src", "script-src-attr"))  # none of them is allowed to run then
    assert browser.run("return [...document.querySelectorAll('.tools')].every((one) => one.hidden)")
    assert "40,000 steps of rank 0 are put together" in browser.run("return document.body.innerText")
    assert browser.run("return document.querySelectorAll('.axis text').length") > 3
