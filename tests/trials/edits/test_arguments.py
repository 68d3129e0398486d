from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from perfdoctor.trials.edits.arguments import Asked, set_at
from perfdoctor.trials.edits.script_text import ByHand, ScriptText
from perfdoctor.tweaks import Argument

WORKERS = Argument("DataLoader", name="num_workers", place=5, trainer="dataloader_num_workers")
SIZE = Argument("DataLoader", name="batch_size", place=1)
STATIC = Argument(
    "DistributedDataParallel", name="static_graph", to=True, instead_of=("find_unused_parameters",)
)
IMPORTED = "import torch\nfrom torch.utils.data import DataLoader\n"
UPDATE = Argument("Adam", "SGD", instead_of=("fused", "foreach"))


def changed(tmp_path: Path, text: str, wanted: Argument, now: object, typed: tuple[str, ...] = ()) -> str:
    """The text with the argument set at the line marked `# here`; what is marked `# told` was changed as well."""
    text = IMPORTED + textwrap.dedent(text).lstrip("\n")
    file = tmp_path / "train.py"
    file.write_bytes(text.encode())
    script = ScriptText(file)
    line = next(number for number, said in enumerate(text.splitlines(), 1) if "# here" in said)
    lines = [
        number for number, said in enumerate(text.splitlines(), 1) if "# here" in said or "# told" in said
    ]
    return script.edited(set_at(script, line, Asked(wanted, now, typed, lines)).edits).removeprefix(IMPORTED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loader = DataLoader(data)  # here", "loader = DataLoader(data, num_workers=4)  # here"),
        ("loader = DataLoader(data, )  # here", "loader = DataLoader(data, num_workers=4, )  # here"),
        (
            "x = torch.utils.data.DataLoader(d, 8)  # here",
            "x = torch.utils.data.DataLoader(d, 8, num_workers=4)  # here",
        ),
        ("x = DataLoader(d, num_workers=0)  # here", "x = DataLoader(d, num_workers=4)  # here"),
        (
            "x = DataLoader(d, num_workers=n if big else 0)  # here",
            "x = DataLoader(d, num_workers=4)  # here",
        ),
        (
            "x = DataLoader(d, 8, True, None, None, 0, f)  # here",
            "x = DataLoader(d, 8, True, None, None, 4, f)  # here",
        ),
        ("x = list(DataLoader(Kept(d)))  # here", "x = list(DataLoader(Kept(d), num_workers=4))  # here"),
        (
            "x = DataLoader(d, shuffle=(a or b))  # here",
            "x = DataLoader(d, shuffle=(a or b), num_workers=4)  # here",
        ),
        ("é = DataLoader(é, collate_fn=ü)  # here", "é = DataLoader(é, collate_fn=ü, num_workers=4)  # here"),
    ],
)
def test_a_call_in_one_line(before: str, after: str, tmp_path: Path) -> None:
    assert changed(tmp_path, before, WORKERS, 4) == after


def test_a_further_argument_has_a_line_of_its_own_where_the_others_have(tmp_path: Path) -> None:
    before = """
        loader = DataLoader(  # here
            data,
            shuffle=True,  # each epoch
        )
        """
    after = """
        loader = DataLoader(  # here
            data,
            shuffle=True,  # each epoch
            num_workers=4,
        )
        """
    assert changed(tmp_path, before, WORKERS, 4) == textwrap.dedent(after).lstrip("\n")


def test_what_is_said_of_the_last_argument_stays_with_it(tmp_path: Path) -> None:
    before = "loader = DataLoader(  # here\n    data,\n    shuffle=True  # type: ignore[arg-type]\n)\n"
    assert changed(tmp_path, before, WORKERS, 4) == before.replace(
        "True  # type: ignore[arg-type]\n", "True,  # type: ignore[arg-type]\n    num_workers=4,\n"
    )


def test_and_none_where_they_share_lines(tmp_path: Path) -> None:
    before = "loader = DataLoader(data, shuffle=True,  # here\n                    drop_last=True)\n"
    after = "loader = DataLoader(data, shuffle=True,  # here\n                    drop_last=True,\n                    num_workers=4)\n"
    assert changed(tmp_path, before, WORKERS, 4) == after


def test_lines_end_as_they_do_in_the_file(tmp_path: Path) -> None:
    before = "x = DataLoader(  # here\r\n    d,\r\n    shuffle=True\r\n)\r\n"
    after = "x = DataLoader(  # here\r\n    d,\r\n    shuffle=True,\r\n    num_workers=4\r\n)\r\n"
    assert changed(tmp_path, before, WORKERS, 4) == after


def test_the_default_of_an_option_is_changed_where_the_value_is_read_from_one(tmp_path: Path) -> None:
    before = """
        parser.add_argument("--num-workers", type=int, default=0)
        args = parser.parse_args()
        loader = DataLoader(data, num_workers=args.num_workers)  # here
        """
    assert "type=int, default=4)" in changed(tmp_path, before, WORKERS, 4)
    assert "num_workers=args.num_workers)" in changed(tmp_path, before, WORKERS, 4)
    without = before.replace(", default=0", "")
    assert "type=int, default=4)" in changed(tmp_path, without, WORKERS, 4)


def test_a_default_that_the_command_overrides_is_left_to_the_command(tmp_path: Path) -> None:
    before = """
        parser.add_argument("-w", "--workers", type=int, default=2)
        args = parser.parse_args()
        loader = DataLoader(data, num_workers=args.workers)  # here
        """
    for typed in (("train.py", "--workers", "0"), ("train.py", "--workers=0"), ("train.py", "-w", "0")):
        with pytest.raises(ByHand, match="type --workers 4 there"):
            changed(tmp_path, before, WORKERS, 4, typed)


@pytest.mark.parametrize(
    ("more", "after"),
    [
        ("required=False", "default=4, required=False"),
        ("choices=[0, 2]", "default=4, choices=[0, 2, 4]"),
        ("choices=(4, 0)", "default=4, choices=(4, 0)"),
    ],
)
def test_an_option_that_says_more_of_its_value(more: str, after: str, tmp_path: Path) -> None:
    before = (
        f"parser.add_argument('--workers', default=0, {more})\nargs = parser.parse_args()\n"
        "loader = DataLoader(data, num_workers=args.workers)  # here\n"
    )
    assert changed(tmp_path, before, WORKERS, 4) == before.replace(f"default=0, {more}", after)


@pytest.mark.parametrize("more", ["required=True", "choices=range(3)", "choices=[0, most]"])
def test_an_option_that_may_not_take_the_value(more: str, tmp_path: Path) -> None:
    before = (
        f"parser.add_argument('--workers', default=0, {more})\nargs = parser.parse_args()\n"
        "loader = DataLoader(data, num_workers=args.workers)  # here\n"
    )
    with pytest.raises(ByHand, match=r"type --workers 4 there|may not allow the value 4"):
        changed(tmp_path, before, WORKERS, 4)


def test_a_switch_has_no_default(tmp_path: Path) -> None:
    before = """
        parser.add_argument("--pin", action="store_true")
        args = parser.parse_args()
        loader = DataLoader(data, pin_memory=args.pin)  # here
        """
    with pytest.raises(ByHand, match="--pin"):
        changed(tmp_path, before, Argument("DataLoader", name="pin_memory"), True)


@pytest.mark.parametrize("made", ["{'num_workers': 0, 'shuffle': True}", "dict(num_workers=0)"])
def test_arguments_that_are_packed_out_are_changed_where_they_are_packed(made: str, tmp_path: Path) -> None:
    before = f"settings = {made}\nloader = DataLoader(data, **settings)  # here\n"
    assert changed(tmp_path, before, WORKERS, 4) == before.replace("0", "4")


def test_packed_arguments_that_do_not_show_what_they_hold(tmp_path: Path) -> None:
    for made in ("load()", "{**rest}", "{key: 1}", "dict(rest)", "{'num_workers': 1} if cuda else {}"):
        with pytest.raises(ByHand, match="set num_workers=4 there"):
            changed(
                tmp_path, f"settings = {made}\nloader = DataLoader(data, **settings)  # here\n", WORKERS, 4
            )


@pytest.mark.parametrize("made", ["{'shuffle': True}", "dict()", "{'pin_memory': True} if cuda else {}"])
def test_packed_arguments_that_cannot_hold_it_leave_it_to_the_call(made: str, tmp_path: Path) -> None:
    for text in (
        f"settings = {made}\nloader = DataLoader(data, **settings)  # here\n",
        f"loader = DataLoader(data, **({made}))  # here\n",
    ):
        assert changed(tmp_path, text, WORKERS, 4) == text.replace(")  # here", ", num_workers=4)  # here")


def test_packed_arguments_that_hold_what_excludes_it(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="set fused=True there"):
        changed(tmp_path, "x = Adam(p, **{'foreach': True})  # here\n", UPDATE, "fused")


def test_a_trainers_loaders_are_its_arguments(tmp_path: Path) -> None:
    before = """
        args = Seq2SeqTrainingArguments(output_dir="out", per_device_train_batch_size=8)
        Trainer(model, args).train()  # here
        """
    assert "train_batch_size=8, dataloader_num_workers=4)" in changed(tmp_path, before, WORKERS, 4)


def test_a_line_that_calls_something_else(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="line 3 does not call DataLoader itself"):
        changed(tmp_path, "loader = make_loader(data)  # here\n", WORKERS, 4)


def test_an_argument_takes_the_place_of_another(tmp_path: Path) -> None:
    before = """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(model, find_unused_parameters=True)  # here
        """
    assert "DDP(model, static_graph=True)" in changed(tmp_path, before, STATIC, "static_graph")


def test_what_became_of_it_may_name_the_argument(tmp_path: Path) -> None:
    before = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # here\n"
    assert "lr=0.1, fused=True)" in changed(tmp_path, before, UPDATE, "fused")
    assert "lr=0.1, foreach=True)" in changed(tmp_path, before, UPDATE, "foreach")


def test_a_line_that_calls_it_twice_does_not_tell_which_is_meant(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="line 3 calls DataLoader 2 times"):
        changed(tmp_path, "first, second = DataLoader(data), DataLoader(data)  # here\n", SIZE, 16)


def test_where_every_call_of_a_line_is_meant_all_are_changed(tmp_path: Path) -> None:
    beside = Argument("to", "cuda", name="non_blocking", every=True)
    before = "x, y = x.to(device), y.to(device)  # here\n"
    after = "x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)  # here\n"
    assert changed(tmp_path, before, beside, True) == after


def test_two_changes_of_one_place_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loader = DataLoader(data, num_workers=1)\n")
    script = ScriptText(file)
    both = [
        *set_at(script, 1, Asked(WORKERS, 2, (), [1])).edits,
        *set_at(script, 1, Asked(WORKERS, 4, (), [1])).edits,
    ]
    with pytest.raises(ByHand, match="two changes meet"):
        script.edited(both)


def test_several_arguments_are_added_in_order(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loader = DataLoader(data)\n")
    script = ScriptText(file)
    alive = Argument("DataLoader", name="persistent_workers")
    both = [
        *set_at(script, 1, Asked(WORKERS, 2, (), [1])).edits,
        *set_at(script, 1, Asked(alive, True, (), [1])).edits,
    ]
    assert script.edited(both) == "loader = DataLoader(data, num_workers=2, persistent_workers=True)\n"


@pytest.mark.parametrize("raw", [b"x = (", b"\xff\xfe", None, "# coding: latin-1\nä = 1\n".encode("latin-1")])
def test_a_file_that_cannot_be_read_is_left_to_a_person(raw: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    if raw is not None:
        file.write_bytes(raw)
    with pytest.raises(ByHand, match=r"train\.py cannot be read"):
        ScriptText(file)


@pytest.mark.parametrize("text", ["\ufeffx = 1\n", "if x:\n\f    y = 1\n"])
def test_marks_that_a_diff_does_not_survive(text: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    with pytest.raises(ByHand, match="byte order mark, or a form feed"):
        ScriptText(file)


OPTION = """
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    {more}
    loader = DataLoader(data, num_workers=args.workers)  # here
    """


@pytest.mark.parametrize(
    "more",
    [
        "args.workers = int((args.workers + 1) / 2)",
        "pool = Pool(args.workers)",
        "vars(args).update(settings)",
        "optimizer = make_optimizer(model, args)",
        "setattr(args, 'workers', 2)",
        "parser.set_defaults(workers=2)",
        "args = parser.parse_args(['--workers', '8'])",
    ],
)
def test_an_option_that_does_more_or_comes_from_elsewhere_stays(more: str, tmp_path: Path) -> None:
    text = OPTION.format(more=more)
    assert changed(tmp_path, text, WORKERS, 4) == textwrap.dedent(text).lstrip("\n").replace(
        "num_workers=args.workers", "num_workers=4"
    )


def test_an_option_that_only_lines_of_the_trial_read_is_changed_once(tmp_path: Path) -> None:
    text = OPTION.format(more="checked = DataLoader(data, num_workers=args.workers)  # told")
    assert "default=4)" in changed(
        tmp_path, text.replace("# here", "# told").replace("# told", "# here", 1), WORKERS, 4
    )


def test_an_attribute_of_something_else_is_no_option(tmp_path: Path) -> None:
    text = """
        parser.add_argument("--workers", type=int, default=0)
        args = parser.parse_args()
        loader = DataLoader(data, num_workers=self.workers)  # here
        """
    assert "num_workers=4)" in changed(tmp_path, text, WORKERS, 4)


@pytest.mark.parametrize("typed", ["-w0", "--work", "--work=0", "--no-workers", "--workers"])
def test_the_command_may_shorten_an_option(typed: str, tmp_path: Path) -> None:
    before = """
        parser.add_argument("-w", "--workers", "--no-workers", type=int, default=2)
        args = parser.parse_args()
        loader = DataLoader(data, num_workers=args.workers)  # here
        """
    with pytest.raises(ByHand, match="the command sets it"):
        changed(tmp_path, before, WORKERS, 4, ("python", "train.py", typed))


@pytest.mark.parametrize(
    "more",
    [
        "kw['num_workers'] = 8",
        "kw.update(num_workers=8)",
        "kw = load()",
        "other = DataLoader(data, **kw)",
        "use(kw)",
    ],
)
def test_packed_arguments_with_which_more_is_done(more: str, tmp_path: Path) -> None:
    text = f"kw = {{'num_workers': 0}}\n{more}\nloader = DataLoader(data, **kw)  # here\n"
    with pytest.raises(ByHand, match="set num_workers=4 there"):
        changed(tmp_path, text, WORKERS, 4)


def test_packed_arguments_of_another_function_are_not_these(tmp_path: Path) -> None:
    text = """
        def first(kw):
            return DataLoader(data, **kw)  # here

        def second():
            kw = {"num_workers": 0}
            return DataLoader(data, **kw)
        """
    with pytest.raises(ByHand, match="set num_workers=4 there"):
        changed(tmp_path, text, WORKERS, 4)


def test_what_excludes_the_argument_gives_it_its_place(tmp_path: Path) -> None:
    assert "(p, fused=True)" in changed(tmp_path, "o = Adam(p, foreach=True)  # here\n", UPDATE, "fused")
    with pytest.raises(ByHand, match="and what excludes it"):
        changed(tmp_path, "o = Adam(p, foreach=True, fused=False)  # here\n", UPDATE, "fused")


@pytest.mark.parametrize(
    ("call", "wanted", "now", "why"),
    [
        ("DataLoader(d, num_workers=4, prefetch_factor=2)",
         Argument("DataLoader", name="num_workers", only_with=("prefetch_factor",)), 0, "gives prefetch_factor, which"),
        ("DataLoader(d, num_workers=4, **kw)",
         Argument("DataLoader", name="num_workers", only_with=("prefetch_factor",)), 0, "gives kw, which"),
        ("net(x.to(device)).to('cpu')", Argument("to", name="non_blocking", every=True), True, "calls to 2 times"),
        ("x.to(device='cpu')", Argument("to", name="non_blocking", every=True), True, "may copy to the host"),
        ("Optimizer.zero_grad(optimizer, False)", Argument("zero_grad", name="set_to_none", place=0), True, "of a class"),
        ("DataLoader(y for y in d)", WORKERS, 4, "without parentheses"),
        ("MyLoader(d)", WORKERS, 4, "does not call DataLoader itself"),
    ],
)  # fmt: skip
def test_a_call_that_would_not_take_it_or_mean_something_else(
    call: str, wanted: Argument, now: object, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ByHand, match=why):
        changed(tmp_path, f"args = TrainingArguments()\nx = {call}  # here\n", wanted, now)


@pytest.mark.parametrize(
    "before",
    [
        "from monai.data import DataLoader\nloader = DataLoader(data, 4)  # here\n",
        "import monai.data\nloader = monai.data.DataLoader(data, 4)  # here\n",
        "loader = make().DataLoader(data, 4)  # here\n",
    ],
)
def test_another_librarys_loader_may_take_other_arguments_by_position(before: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="to a class that may not be torch's"):
        changed(tmp_path, before, SIZE, 16)


def test_a_helper_that_copies_may_be_told_to_copy_to_the_host(tmp_path: Path) -> None:
    before = "def to_device(x, device):\n    return x.to(device)  # here\n"
    with pytest.raises(ByHand, match="may copy to the host"):
        changed(tmp_path, before, Argument("to", name="non_blocking"), True)


@pytest.mark.parametrize(
    "option",
    [
        'parser.add_argument(FLAG, dest="workers", default=0)',
        'parser.add_argument("--workers", **common)',
        'parser.add_argument("--" + name, dest="workers", action="store_true")',
    ],
)
def test_an_option_that_is_put_together_stays(option: str, tmp_path: Path) -> None:
    before = (
        f"{option}\nargs = parser.parse_args()\nloader = DataLoader(data, num_workers=args.workers)  # here\n"
    )
    assert changed(tmp_path, before, WORKERS, 4) == before.replace("args.workers", "4")


def test_a_call_that_ends_in_the_line_of_its_last_argument(tmp_path: Path) -> None:
    before = "made = dict(\n    a=DataLoader(  # here\n        d,\n        shuffle=True,),\n    b=None)\n"
    assert changed(tmp_path, before, WORKERS, 4) == before.replace("True,)", "True, num_workers=4,)")


def test_a_call_without_arguments(tmp_path: Path) -> None:
    before = "args = TrainingArguments()\nTrainer(model, args).train()  # here\n"
    assert "TrainingArguments(dataloader_num_workers=4, )" in changed(tmp_path, before, WORKERS, 4)
