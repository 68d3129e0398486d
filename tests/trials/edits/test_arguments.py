from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from perfdoctor.trials.edits.arguments import set_at
from perfdoctor.trials.edits.script_text import ByHand, ScriptText
from perfdoctor.tweaks import Argument

WORKERS = Argument("DataLoader", name="num_workers", place=5, trainer="dataloader_num_workers")
SIZE = Argument("DataLoader", name="batch_size", place=1)
STATIC = Argument(
    "DistributedDataParallel", name="static_graph", to=True, instead_of="find_unused_parameters"
)
UPDATE = Argument("Adam", "SGD")


def changed(tmp_path: Path, text: str, wanted: Argument, now: object, typed: tuple[str, ...] = ()) -> str:
    """The text with the argument set at the line that is marked by `# here`."""
    text = textwrap.dedent(text).lstrip("\n")
    file = tmp_path / "train.py"
    file.write_bytes(text.encode())
    script = ScriptText(file)
    line = next(number for number, said in enumerate(text.splitlines(), 1) if "# here" in said)
    return script.edited(set_at(script, line, wanted, now, typed))


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
        loader = DataLoader(data, num_workers=parser.parse_args().workers)  # here
        """
    for typed in (("train.py", "--workers", "0"), ("train.py", "--workers=0"), ("train.py", "-w", "0")):
        with pytest.raises(ByHand, match="type --workers 4 there"):
            changed(tmp_path, before, WORKERS, 4, typed)


def test_a_switch_has_no_default(tmp_path: Path) -> None:
    before = """
        parser.add_argument("--pin", action="store_true")
        loader = DataLoader(data, pin_memory=args.pin)  # here
        """
    with pytest.raises(ByHand, match="--pin"):
        changed(tmp_path, before, Argument("DataLoader", name="pin_memory"), True)


@pytest.mark.parametrize("made", ["{'num_workers': 0, 'shuffle': True}", "dict(num_workers=0)"])
def test_arguments_that_are_packed_out_are_changed_where_they_are_packed(made: str, tmp_path: Path) -> None:
    before = f"settings = {made}\nloader = DataLoader(data, **settings)  # here\n"
    assert changed(tmp_path, before, WORKERS, 4) == before.replace("0", "4")


def test_packed_arguments_that_do_not_show_what_they_hold(tmp_path: Path) -> None:
    for made in ("{'shuffle': True}", "load()"):
        with pytest.raises(ByHand, match="set num_workers=4 there"):
            changed(
                tmp_path, f"settings = {made}\nloader = DataLoader(data, **settings)  # here\n", WORKERS, 4
            )


def test_a_trainers_loaders_are_its_arguments(tmp_path: Path) -> None:
    before = """
        args = Seq2SeqTrainingArguments(output_dir="out", per_device_train_batch_size=8)
        Trainer(model, args).train()  # here
        """
    assert "train_batch_size=8, dataloader_num_workers=4)" in changed(tmp_path, before, WORKERS, 4)


def test_a_line_that_calls_something_else(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="line 1 does not call DataLoader itself"):
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
    with pytest.raises(ByHand, match="line 1 calls DataLoader 2 times"):
        changed(tmp_path, "first, second = DataLoader(data), DataLoader(data)  # here\n", SIZE, 16)


def test_where_every_call_of_a_line_is_meant_all_are_changed(tmp_path: Path) -> None:
    beside = Argument("to", "cuda", name="non_blocking", every=True)
    before = "x, y = x.to(device), y.cuda()  # here\n"
    after = "x, y = x.to(device, non_blocking=True), y.cuda(non_blocking=True)  # here\n"
    assert changed(tmp_path, before, beside, True) == after


def test_two_changes_of_one_place_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loader = DataLoader(data, num_workers=1)\n")
    script = ScriptText(file)
    both = [*set_at(script, 1, WORKERS, 2, ()), *set_at(script, 1, WORKERS, 4, ())]
    with pytest.raises(ByHand, match="two changes meet"):
        script.edited(both)


def test_several_arguments_are_added_in_order(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loader = DataLoader(data)\n")
    script = ScriptText(file)
    alive = Argument("DataLoader", name="persistent_workers")
    both = [*set_at(script, 1, WORKERS, 2, ()), *set_at(script, 1, alive, True, ())]
    assert script.edited(both) == "loader = DataLoader(data, num_workers=2, persistent_workers=True)\n"


@pytest.mark.parametrize("raw", [b"x = (", b"\xff\xfe", None, b"# coding: nonsense\n"])
def test_a_file_that_cannot_be_read_is_left_to_a_person(raw: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    if raw is not None:
        file.write_bytes(raw)
    with pytest.raises(ByHand, match=r"train\.py cannot be read"):
        ScriptText(file)
