"""What authors of tweaks forget, checked for all of them at once; and all of them applied together."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.probe.trial.tweak import RESULTS, Count, OneOf
from perfdoctor.trials.settings import flags, tweak_catalogue
from tests.support.paths import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

FOLDER = ROOT / "perfdoctor" / "tweaks"
TWEAKS = tweak_catalogue.tweaks()
SECTIONS = ("## What changes", "## Left alone", "## Same result")
TITLE_MAX = 80  # columns: a title stands on one line of a list
OLDEST = (3, 9)  # Python that a script may run under

each = pytest.mark.parametrize("tweak", TWEAKS, ids=lambda tweak: tweak.id)


def module_of(tweak):
    return import_module(f"perfdoctor.tweaks.{tweak.id.replace('-', '_')}")


def function_of(tweak):
    (function,) = (value for value in vars(module_of(tweak)).values() if hasattr(value, "__tweak__"))
    return function


def section(tweak, heading):
    return tweak.doc.partition(heading)[2].partition("\n## ")[0].strip()


def test_tweaks_are_found_by_their_files():
    files = {path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")}
    assert {tweak.id.replace("-", "_") for tweak in TWEAKS} == files
    assert len(files) >= 25


def test_every_flag_belongs_to_one_tweak():
    typed = [flag for tweak in TWEAKS for flag in (tweak.flag, *tweak.extras)]
    assert len(typed) == len(set(typed))


@each
def test_its_flag_is_its_file_name_with_dashes(tweak):
    assert tweak.flag == f"--{tweak.id}"
    assert all(extra.startswith(f"{tweak.flag}-") for extra in tweak.extras)


@each
def test_its_first_line_is_an_imperative_sentence_that_fits_a_list(tweak):
    first = tweak.doc.split("\n\n")[0]
    assert first.endswith(".")
    assert first[0].isupper()
    assert ". " not in first
    assert len(first) <= TITLE_MAX


@each
def test_its_page_has_every_section_in_order_and_none_is_empty(tweak):
    places = [tweak.doc.find(f"\n{heading}\n") for heading in SECTIONS]
    assert -1 not in places
    assert places == sorted(places)
    assert all(section(tweak, heading) for heading in SECTIONS)


@each
def test_its_page_says_of_the_result_what_it_declares(tweak):
    assert tweak.result in RESULTS
    assert section(tweak, SECTIONS[2]).lower().startswith(tweak.result)


@each
def test_its_function_takes_what_its_flags_give(tweak):
    function = function_of(tweak)
    here, *values = inspect.signature(function).parameters.values()
    assert here.name == "here"
    extras = [flag.removeprefix("--").replace("-", "_") for flag in tweak.extras]
    assert [value.name for value in values][tweak.takes is not None :] == extras
    assert all(value.default is not inspect.Parameter.empty for value in values[tweak.takes is not None :])
    assert inspect.getdoc(function)


@each
def test_its_values_are_read_as_they_are_said(tweak):
    for takes in (tweak.takes, *tweak.extras.values()):
        assert takes is None or isinstance(takes, (Count, OneOf))
        for word in words_of(takes):
            takes.read(word)


@each
def test_it_has_tests(tweak):
    assert (ROOT / "tests" / "tweaks" / f"test_{tweak.id.replace('-', '_')}.py").is_file()


@pytest.mark.parametrize(
    "path",
    sorted([*FOLDER.glob("*.py"), *(ROOT / "perfdoctor" / "probe").rglob("*.py")]),
    ids=lambda path: path.relative_to(ROOT / "perfdoctor").as_posix(),
)
def test_what_runs_in_the_users_process_is_written_for_its_oldest_python(path):
    """The grammar by the parser; what is called, by the names that came later."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)
    later = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_newer(node)]
    assert not later


def _is_newer(call):
    """Whether a call needs a Python after 3.9: `zip(strict=)`, `dataclass(slots=)`, `isinstance(x, A | B)`."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    named = {keyword.arg for keyword in call.keywords}
    union = name == "isinstance" and isinstance(call.args[-1], ast.BinOp)
    return (
        union
        or (name == "zip" and "strict" in named)
        or (name == "dataclass" and bool(named & {"slots", "kw_only"}))
        or name in ("pairwise", "bit_count", "aiter", "anext")
    )


# ------------------------------------------------------------ what tips advise


def advised():
    """(tip's file, words) of every tweak that a tip's source names, where the words do not depend on the run."""
    for path in sorted((ROOT / "perfdoctor" / "tips").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "tweak":
                for part in ast.walk(node.value):
                    if isinstance(part, ast.Constant) and str(part.value).lstrip().startswith("--"):
                        yield pytest.param(str(part.value), id=f"{path.stem}:{str(part.value).strip()}")


@pytest.mark.parametrize("words", list(advised()))
def test_what_a_tip_advises_is_a_tweak(words):
    """A value that is filled in is checked where the tips are judged: tests/tips/test_catalogue.py."""
    for flag in re.findall(r"--[a-z0-9-]+", words):
        flags.named(flag, TWEAKS)
    if words == words.strip():
        flags.read(words.split(), TWEAKS)


def test_a_flag_that_no_tweak_has_would_be_found():
    with pytest.raises(PerfdoctorError, match="no tweak called --worker"):
        flags.named("--worker", TWEAKS)


# ------------------------------------------------------------ all together


def words_of(takes):
    """Values that a flag takes: the ends of its range, or each of its words."""
    if takes is None:
        return []
    if isinstance(takes, OneOf):
        return list(takes.words)
    return [str(takes.low), str(takes.high), *(["auto"] if takes.auto else [])]


def everything():
    """Every tweak with every flag of it, at a value that suits a small script: {module's name: {argument: value}}."""
    words = []
    for tweak in TWEAKS:
        for flag, takes in {tweak.flag: tweak.takes, **tweak.extras}.items():
            words.append(flag)
            if isinstance(takes, Count):
                words.append(str(max(takes.low, 2)))
            elif takes is not None:
                words.append(takes.words[-1])
    return {setting.module: dict(setting.values) for setting in flags.read(words, TWEAKS)}


# Those that find something to change, or to leave alone, in the script below.
ALWAYS = {
    "accumulate",
    "amp",
    "batch_size",
    "channels_last",
    "compile",
    "fused_optimizer",
    "workers",
    "zero_grad_none",
}
DISTRIBUTED = {"ddp_bucket_mb", "ddp_compress", "ddp_static_graph", "no_sync"}

SCRIPT = """
    import functools
    import os
    import sys
    import time

    import torch
    from torch import distributed, nn
    from torch.utils.data import DataLoader, TensorDataset

    RANKS = int(sys.argv[1])
    if RANKS > 1 and "RANK" not in os.environ:
        from torch.distributed.run import main
        main(["--nproc-per-node", str(RANKS), __file__, str(RANKS)])
        sys.exit()
    torch.compile = functools.partial(torch.compile, backend="eager")  # what inductor does is not the question
    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
            self.head = nn.Linear(4 * 36, 3)

        def forward(self, images):
            return self.head(self.seen(images))

    model = net = Net()
    if RANKS > 1:
        distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randn(64, 3, 8, 8), torch.randint(3, (64,)))
    loader, held_out = DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=16)
    for epoch in range(2):
        model.train()
        for images, kinds in loader:
            optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(model(images), kinds)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        right = sum((model(images).argmax(1) == kinds).sum().item() for images, kinds in held_out)
        assert right > 0
    if os.environ.get("RANK", "0") == "0":
        print("keys", *net.state_dict())
        print("types", *(str(value.dtype) for value in net.state_dict().values()))
        print("finite", all(value.isfinite().all().item() for value in net.state_dict().values()))
        print("loss", loss.dtype, loss.item() < 5)
    if RANKS > 1:
        for value in net.state_dict().values():
            both = [torch.empty_like(value) for _ in range(RANKS)]
            distributed.all_gather(both, value.contiguous())
            assert torch.equal(*both)
        distributed.destroy_process_group()
        time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


@pytest.mark.parametrize(
    ("ranks", "without"),
    [("1", ("no_compile",)), ("1", ("compile",)), ("2", ("no_compile",))],
    ids=["together", "uncompiled", "two ranks"],
)
def test_all_tweaks_together_break_nothing(tmp_path, ranks, without):
    pytest.importorskip("torch")
    from tests.support.applying import ran

    tweaks = {name: values for name, values in everything().items() if name not in without}
    original = ran(tmp_path, SCRIPT, {}, None, ranks)
    tweaked = ran(tmp_path, SCRIPT, tweaks, None, ranks)
    assert (original.status, tweaked.status) == (0, 0), (original.printed, tweaked.printed)
    assert lines(tweaked.printed) == lines(original.printed)
    ends = [end for rank in tweaked.records.ranks.values() for end in rank.of("trial_end")]
    assert [end["broken"] for end in ends] == [{}] * int(ranks)
    told = {event["tweak"] for event in tweaked.told.events if event["event"] == "tweak"}
    assert told >= (ALWAYS | (DISTRIBUTED if ranks == "2" else set())) - set(without)


def lines(printed):
    """What the script itself printed."""
    return [
        line
        for line in printed.splitlines()
        if line.split()[:1] in (["keys"], ["types"], ["finite"], ["loss"])
    ]
