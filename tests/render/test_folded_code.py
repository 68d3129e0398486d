from __future__ import annotations

import ast
import shlex

import pytest

from perfdoctor.render import page as blocks
from perfdoctor.render import terminal
from perfdoctor.render.folded_code import folded

CALL = "DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True, persistent_workers=True)"


def test_a_comment_goes_on_below_its_own_sign():
    assert folded("with model.no_sync():  # every second backward, and its forward\n    ...", 50) == [
        "with model.no_sync():  # every second backward,",
        "                       # and its forward",
        "    ...",
    ]


def test_a_comment_that_has_no_room_beside_its_code_stands_above_it():
    assert folded("    flat = torch.cat(gradients)  # all of them: once, not each", 36) == [
        "    # all of them: once, not each",
        "    flat = torch.cat(gradients)",
    ]


def test_a_line_of_comment_becomes_several_with_the_same_indent():
    assert folded("  # in the validation loop, on the model as it is then", 30) == [
        "  # in the validation loop, on",
        "  # the model as it is then",
    ]


def test_code_breaks_behind_a_comma_within_brackets():
    assert folded(CALL, 50) == [
        "DataLoader(dataset, batch_size=64, num_workers=8,",
        "    pin_memory=True, persistent_workers=True)",
    ]


def test_code_outside_of_brackets_goes_on_behind_a_backslash():
    assert folded("padded = aligned_size + remaining_size + 1", 30) == [
        "padded = aligned_size + \\",
        "    remaining_size + 1",
    ]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x = 'a string # that is much longer than its line'", id="a-string"),
        pytest.param("x = f'{a} # that is {b + c} longer than its line'", id="an-f-string"),
        pytest.param("x = '''a string\nof several lines, the second one long\n'''  # and more", id="several"),
        pytest.param("very_long_names_have_no_place_to_break", id="a-name"),
        pytest.param("x = 1 + \\\n    2 + 3 + 4 + 5 + 6 + 7 + 8 + 9", id="broken-already"),
    ],
)
def test_what_has_no_place_to_break_stays_whole(line):
    assert max(folded(line, 20), key=len).strip() in line


@pytest.mark.parametrize(
    "text", ["loss = f(first, second, third,", "if 'open: # quote", "a b $ c d e f g h i j"]
)
def test_what_is_unfinished_or_no_python_keeps_its_words(text):
    assert sorted(" ".join(folded(text, 18)).replace(" \\", "").split()) == sorted(text.split())


def test_a_command_goes_on_behind_a_backslash_and_quotes_are_kept_whole():
    command = "perfdoctor try --workers 4 -- python train.py --name 'a b c d e' --x y"
    lines = folded(command, 30, "shell")
    assert max(map(len, lines)) <= 30
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)


def _same(code, lines):
    return ast.dump(ast.parse(code)) == ast.dump(ast.parse("\n".join(lines)))


SNIPPETS = [
    CALL,
    "optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)  # one kernel for all of them",
    "if step % 50 == 0:\n    print(f'{step}: {loss.item():.4f} and {accuracy:.2%}')  # only what prints",
    "x = data[rows] if rows is not None else data[torch.arange(len(data)), 0]  # whole arrays at once",
    "with torch.autocast('cpu', dtype=torch.bfloat16), torch.no_grad():\n    output = model(batch)",
    "rows = [self.transform(row) for row in table if row.is_valid and not row.is_empty]",
]


@pytest.mark.parametrize("code", SNIPPETS)
@pytest.mark.parametrize("columns", [30, 44, 60, 80])
def test_what_is_copied_from_a_narrow_page_is_the_same_program(code, columns):
    lines = folded(code, columns)
    assert _same(code, lines)
    assert max(map(len, lines)) <= max(columns, 56)  # as long as the longest string


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_draws_it_beside_its_label(width):
    code = "torch.set_num_threads(1)  # while other programs keep the cores, and no longer than they do"
    drawn = terminal.draw(blocks.page([[blocks.Labelled((("by hand", blocks.Code(code)),))]]), width)
    shown = [line for line in drawn.splitlines() if line.strip()]
    code_column = shown[0].index("torch" if "torch" in shown[0] else "#")
    assert _same(code, [line[code_column:] for line in shown])
    assert max(map(len, shown)) <= min(width, 100)
