from __future__ import annotations

import ast

import pytest

from perfdoctor.facts.user_source.parse import Listing, Sources, logs, saves, written_below
from tests.support.records import source_of


def statement(text):
    return ast.parse(text).body[0]


LOGGING = """\
print(x)
logging.info('x')
self.logger.debug(x)
writer.add_scalar('loss', x)
wandb.log({})
bar.set_postfix(loss=x)
mlflow.log_metric('a', 1)
json.dump(x, f)
f.write(json.dumps(x))
csv_writer.writerow(x)
console.log(x)
plt.savefig('a')"""


@pytest.mark.parametrize("text", LOGGING.split("\n"))
def test_statements_that_log(text):
    assert logs(statement(text))


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.log(y)",
        "y = x.log()",
        "math.log(2)",
        "if x:\n    print(1)",
        "loss.item()",
        "buffer.flush()",
        "replay.write(state, reward)",
        "table.writerow([state])",
        "head.add_text(state)",
        "write(state)",
    ],
)
def test_statements_that_do_not(text):
    assert not logs(statement(text))


def test_what_is_made_as_a_writer_is_one_whatever_its_name():
    text = (
        "rows = csv.writer(file)\nwith open(path) as shown:\n    self.board = SummaryWriter()\nx = Replay()"
    )
    writers = Listing(text.split("\n")).writers
    assert writers == {"rows", "shown", "board"}
    assert logs(statement("rows.writerow(x)"), writers=writers)
    assert not logs(statement("x.writerow(x)"), writers=writers)


def test_loggers_are_known_by_what_makes_them():
    listing = Listing(
        ["journal = logging.getLogger('a')", "self.notes: L = journal.getChild('b')", "a = b()"]
    )
    assert listing.loggers == {"journal", "notes"}
    assert logs(statement("self.notes.debug(x)"), writers=listing.writers)
    assert logs(statement("logging.getLogger('a').debug(x)"))
    assert not logs(statement("a.debug(x)"), writers=listing.writers)


@pytest.mark.parametrize(
    "text", ["torch.save(m, p)", "pickle.dump(m, f)", "np.savez('a', x)", "model.save_pretrained(d)"]
)
def test_statements_that_save(text):
    assert saves(statement(text))


def test_a_buffer_that_saves_a_sample_writes_no_checkpoint():
    assert not saves(statement("buffer.save(state, reward)"))


def test_a_compound_statement_is_its_header():
    listing = Listing(
        ["for x in xs:", "    work(x)", "    if x:", "        y = (", "            1)", "done()"]
    )
    assert isinstance(listing.statement(1), ast.For)
    assert listing.statement(5).lineno == 4
    assert isinstance(listing.outermost_loop(5), ast.For)
    assert listing.outermost_loop(6) is None


def test_a_function_is_a_scope_of_its_own():
    listing = Listing(["while True:", "    def inner():", "        work()", "    inner()"])
    assert listing.outermost_loop(3) is None
    assert listing.scope(3).name == "inner"


def test_one_liners_are_found():
    assert isinstance(Listing(["for x in xs: work(x)"]).statement(1), ast.Expr)


def test_text_is_stripped_and_missing_files_are_empty():
    sources = Sources(source_of(train="  a = 1\n"))
    assert sources.text("/home/me/train.py", 1) == "a = 1"
    assert sources.text("/home/me/train.py", 99) is None
    assert sources.file("/nowhere.py").tree.body == []


def test_modules_of_the_users_are_looked_for_beside_and_above_the_file():
    files = {"/me/pkg/metrics.py", "/me/tools/log.py", "/me/pkg/sub/near.py", "/me/pkg/nets/__init__.py"}
    sources = Sources(lambda file, line: "x = 1" if file in files and line == 1 else None)
    file = "/me/pkg/sub/train.py"
    assert sources.imported(file, ".near") == "/me/pkg/sub/near.py"
    assert sources.imported(file, "..metrics") == "/me/pkg/metrics.py"
    assert sources.imported(file, "pkg.metrics") == "/me/pkg/metrics.py"
    assert sources.imported(file, "tools.log") == "/me/tools/log.py"
    assert (
        sources.imported(file, "pkg.nets") == sources.imported(file, "..nets") == "/me/pkg/nets/__init__.py"
    )
    assert sources.imported(file, "numpy") is None


def test_packages_may_lie_in_a_folder_for_sources():
    file = "/me/project/src/nets/small.py"
    sources = Sources(lambda name, line: "x = 1" if name == file and line == 1 else None)
    assert sources.imported("/me/project/train.py", "nets.small") == file
    assert sources.imported("/me/project/scripts/train.py", "nets.small") == file
    assert sources.imported("/me/project/scripts/train.py", ".nets.small") is None


LINES = """\
print(
    f"loss {loss:.3f}",  # seen
    'a "b"',
)
for x in tqdm(
    loader,
):
    if (x
            > 3):
        text = \'\'\'one
two\'\'\'
    total += x
@jit(
    fast=True)
def f(a,
      b):
    pass
"""


@pytest.mark.parametrize(
    ("line", "whole", "last"),
    [
        (1, "print(f'loss {loss:.3f}', 'a \"b\"')", 4),
        (2, "print(f'loss {loss:.3f}', 'a \"b\"')", 4),
        (6, "for x in tqdm(loader):", 7),
        (8, "if x > 3:", 9),
        (10, "text = 'one\\ntwo'", 11),
        (12, None, 12),
        (15, None, 15),
        (99, None, 99),
    ],
)
def test_a_place_tells_all_of_a_statement_of_several_lines(line, whole, last):
    sources = Sources(source_of(train=LINES))
    at = sources.at("/home/me/train.py", line)
    assert at.whole == whole
    assert at.statement == (whole or at.text)
    assert sources.shown(at) == at
    assert sources.lines_of(at)[-1] == last


def test_what_is_no_python_has_the_text_of_its_line():
    at = Sources(source_of(train="print(\n  loss")).at("/home/me/train.py", 2, "main")
    assert (at.text, at.whole, at.function) == ("loss", None, "main")


@pytest.mark.parametrize(
    ("header", "count"),
    [
        ("with open(path, 'w') as f:", 2),
        ("with torch.no_grad(), gzip.open(path, mode='at') as f:", 2),
        ("with path.open('r+b') as f:", 2),
        ("with open('notes') as f:", 0),
        ("with open(path, 'rb') as f:", 0),
        ("with lock('w'):", 0),
        ("for f in open(path, 'w'):", 0),
    ],
)
def test_what_is_written_before_a_file_is_closed(header, count):
    assert len(written_below(statement(f"{header}\n    if x:\n        f.write(x)"))) == count
