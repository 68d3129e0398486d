from __future__ import annotations

import ast

import pytest

from perfdoctor.facts.user_source.log_calls import is_handed_to_log, level_test
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from tests.support.records import source_of


@pytest.mark.parametrize(
    ("text", "handed"),
    [
        ('log.debug(f"step {step}\\n{table(rows)}")', True),
        ('self.logger.info("%s", table(rows))', True),
        ('logger.opt(lazy=False).debug("{}", table(rows))', False),
        ('wandb.log({"table": table(rows)})', True),
        ('writer.add_histogram("rows", table(rows), step)', True),
        ("print(step, *map(str, table(rows)))", True),
        ("print(step); rows = table(rows)", False),
        ("kept.append(table(rows))", False),
        ("print(step, rows)", False),
        ("print(table(rows), rows.add(table(rows)))", True),
        ("seen[print(step)] = table(rows)", False),
    ],
)
def test_what_is_computed_for_a_log_alone(text, handed):
    node = ast.parse(text).body[-1]
    assert is_handed_to_log(node, "table") is handed


SCRIPT = """\
import logging
import logging as lg
from project.logs import LOG, shout
log = logging.getLogger(__name__)
other = make_logger()
class Hook:
    def __init__(self):
        self.journal: logging.Logger = log.getChild("hook")
    def after_step(self, state):
        LINE
"""
LOGS = """\
import logging
LOG = logging.getLogger("project")
shout = print
"""


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ('log.debug(f"{table(rows)}")', "log.isEnabledFor(logging.DEBUG)"),
        ('self.journal.info("%s", table(rows))', "self.journal.isEnabledFor(logging.INFO)"),
        ("LOG.warning(table(rows))", "LOG.isEnabledFor(logging.WARNING)"),
        ("logging.debug(table(rows))", "logging.getLogger().isEnabledFor(logging.DEBUG)"),
        ('logging.getLogger("a").debug(rows)', "logging.getLogger('a').isEnabledFor(logging.DEBUG)"),
        ("log.log(15, table(rows))", "log.isEnabledFor(15)"),
        ("log.log(level=15, msg=rows)", None),
        ("other.debug(table(rows))", None),
        ("shout.debug(table(rows))", None),
        ("print(table(rows))", None),
        ("log.flush()", None),
        ("rows = log.debug(table(rows))", None),
    ],
)
def test_what_a_logger_of_python_is_asked_by(text, test):
    source = source_of(train=SCRIPT.replace("LINE", text), **{"project/logs": LOGS})
    assert level_test(Sources(source), Location("/home/me/train.py", 10)) == test
