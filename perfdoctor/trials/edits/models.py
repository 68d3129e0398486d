"""Writes what is about the model that a line calls: around the call, or behind what makes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.parse import Function, names_in
from perfdoctor.trials.edits.made import Made, is_object, made_by
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.trials.edits.statements import indented, simple_statement

RESULTS = ("output", "outputs", "model_output", "predicted")  # names for what a model returns
# What comes before a call in a statement may stand behind it if it is one of these, made of these.
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.operator, ast.unaryop, ast.expr_context)
# And a call may be taken out of these, whose parts are evaluated in the order of their fields.
OPEN = (ast.Call, ast.keyword, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Subscript)
HOLDERS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
# What makes, moves, reshapes or converts what is handed to a model: autocast leaves it as it is.
AS_EVER = frozenset(
    "to cuda cpu float double long int bool view reshape flatten permute transpose squeeze unsqueeze expand "
    "repeat contiguous clone detach size masked_fill cat stack tensor as_tensor from_numpy zeros ones full "
    "rand randn randint arange zeros_like ones_like rand_like randn_like".split()
)
OF_LIGHTNING = "LightningModule"


def called_at(script: ScriptText, line: int, kind: str) -> ast.Call:
    """The call at a line of a model whose class is called `kind`. Raises ByHand where it may be another."""
    certain: list[ast.Call] = []
    doubtful: list[ast.Call] = []
    for call in script.calls(line):
        if is_object(script, call.func):
            made = made_by(script, call.func, call)
            known = made.kind if made is not None else None
            if known in (None, kind):
                (doubtful if known is None else certain).append(call)
    found = certain or doubtful
    if len(found) != 1:
        raise ByHand(
            f"line {line} calls {'more than one thing that may be' if found else 'nothing that is'} {kind}"
        )
    return found[0]


# ---------------------------------------------------------------- around its call


def under(script: ScriptText, line: int, kind: str, context: str) -> list[TextEdit]:
    """The edits that put the call of a model below a `with`, and make what it returns float32.

    A call inside an expression gets a statement of its own before it: what else the expression computes
    stays as it is. Raises ByHand.
    """
    below = f"put the call of {kind} below `with {context}:`"
    if not script.knows_torch:
        raise ByHand(f"{script.path.name} does not begin with `import torch`: {below}")
    call = called_at(script, line, kind)
    if any(OF_LIGHTNING in names_in(base) for base in _bases(script, call)):
        raise ByHand(f"line {line} is in a {OF_LIGHTNING}: give its Trainer precision='bf16-mixed'")
    other = next((node for given in _given(call) for node in ast.walk(given) if _may_round(node)), None)
    if other is not None:
        raise ByHand(f"line {line} computes {ast.unparse(other)} for {kind}, which autocast would round, too")
    statement = simple_statement(script, line, below)
    if not isinstance(statement, HOLDERS):
        raise ByHand(f"line {line} cannot be parted: {below}")
    if statement.value is call:
        end = script.end(call)
        as_before = [] if isinstance(statement, ast.Expr) else [TextEdit(end, end, ".float()")]
        return indented(script, statement, context) + as_before
    return _taken_out(script, statement, call, context)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _may_round(node: ast.AST) -> bool:
    """Whether autocast may compute a part of an argument in 16 bits."""
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Attribute) and node.func.attr in AS_EVER)
    return isinstance(node, ast.MatMult)


def _bases(script: ScriptText, node: ast.AST) -> Iterator[ast.expr]:
    for around in script.around(node):
        if isinstance(around, ast.ClassDef):
            yield from around.bases


def _taken_out(script: ScriptText, statement: ast.stmt, call: ast.Call, context: str) -> list[TextEdit]:
    """`loss = criterion(model(x), y)` in two statements: what `model(x)` returns gets a name."""
    below = f"put the call below `with {context}:`"
    within = script.around(call)
    path = within[within.index(statement) :]
    for outer, inner in zip(path, [*path[1:], call], strict=True):
        if not (outer is statement or isinstance(outer, OPEN)) or not _comes_first(outer, inner):
            raise ByHand(f"line {call.lineno} computes something else before: {below}")
    used = names_in(script.tree) | {node.arg for node in ast.walk(script.tree) if isinstance(node, ast.arg)}
    name = next((each for each in RESULTS if each not in used), None)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if name is None or not script.is_alone(statement) or script.spans_lines(first, last):
        raise ByHand(f"line {first} cannot be parted: {below}")
    begin, end, indent = script.begin(call), script.end(call), script.indent(first)
    said = script.text[begin:end].replace("\n", "\n" + script.step(first))
    before = script.begin_of_line(first)
    head = (
        f"{indent}with {context}:{script.newline}{indent}{script.step(first)}{name} = {said}{script.newline}"
    )
    return [TextEdit(before, before, head), TextEdit(begin, end, f"{name}.float()")]


def _comes_first(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a part of an expression is computed before all else in it, but for what is only looked up."""
    if isinstance(outer, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return outer.value is inner and (not isinstance(outer, ast.AugAssign) or _is_plain(outer.target))
    before: list[ast.AST] = []
    for part in ast.iter_child_nodes(outer):
        if part is inner:
            break
        before.append(part)
    return all(_is_plain(part) for part in before)


def _is_plain(node: ast.AST) -> bool:
    return all(isinstance(part, PLAIN) for part in ast.walk(node))


# ---------------------------------------------------------------- behind what makes it


def behind_making(script: ScriptText, line: int, kind: str, text: str) -> list[TextEdit]:
    """The edit that calls a method of the model that a line calls, right after it was made. Raises ByHand."""
    method = f"add {kind.lower()}.{text} behind what makes it"
    call = called_at(script, line, kind)
    own = [node for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef) and node.name == kind]
    defined = {node.name for each in own for node in each.body if isinstance(node, Function)}
    if text.partition("(")[0] in defined:
        raise ByHand(f"{kind} has its own {text.partition('(')[0]}()")
    made = made_by(script, call.func, call)
    if made is None or made.statement is None:
        raise ByHand(f"no single statement of {script.path.name} makes what line {line} calls: {method}")
    if not (_is_shown(script, made, kind, call) if own else made.kind == kind and not made.is_torchs):
        raise ByHand(f"{script.path.name} does not show where the class {kind} comes from: {method}")
    statement = made.statement
    if not script.is_alone(statement):
        raise ByHand(f"line {statement.lineno} says more than that: {method}")
    end = script.line_end(statement.end_lineno or statement.lineno)
    return [TextEdit(end, end, f"{script.newline}{script.indent(statement.lineno)}{made.name}.{text}")]


def _is_shown(script: ScriptText, made: Made, kind: str, call: ast.Call) -> bool:
    """Whether the statement makes one of a class of the file's: itself, or by a function that makes some."""
    if made.maker is not None:
        makers = (
            each for each in ast.walk(script.tree) if isinstance(each, Function) and each.name == made.maker
        )
        calls = (part for maker in makers for part in ast.walk(maker) if isinstance(part, ast.Call))
        return any(script.name(part.func) == kind for part in calls)
    return made.kind == kind or (
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"
    )
