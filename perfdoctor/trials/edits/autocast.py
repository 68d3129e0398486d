"""Puts the call of a model under autocast, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.parse import Function, names_in
from perfdoctor.trials.edits.bindings import Target
from perfdoctor.trials.edits.made import made_by
from perfdoctor.trials.edits.models import AS_EVER, called_at, is_set
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.trials.edits.statements import further_in, indented, simple_statement

RESULTS = ("output", "outputs", "model_output", "predicted")  # names for what a model returns
# What comes before a call in a statement may stand behind it if it is one of these, made of these.
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.keyword, ast.operator, ast.unaryop, ast.expr_context)
# And a call may be taken out of these, whose parts are evaluated in the order of their fields.
OPEN = (ast.Call, ast.keyword, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Subscript)
HOLDERS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
SUSPENDS = (ast.Await, ast.NamedExpr)  # others run meanwhile; a name is bound in the middle
COUNTS = frozenset(("len", "int", "float", "bool", "range"))
OF_LIGHTNING = "LightningModule"
STEPS_OF_LIGHTNING = frozenset(("training_step", "validation_step", "test_step", "predict_step"))


def under(script: ScriptText, line: int, kind: str, context: str) -> list[TextEdit]:
    """The edits that put the call of a model below a `with`, and make what it returns float32.

    A call inside an expression gets a statement of its own before it: what else the expression computes
    stays as it is. Raises ByHand.
    """
    below = f"put the call of {kind} below `with {context}:`"
    script.check_torch(line, below)
    if any(_is_lightnings(script, call) for call in script.calls(line)):
        raise ByHand(f"line {line} is in a {OF_LIGHTNING}: give its Trainer precision='bf16-mixed'")
    call = called_at(script, line, kind)
    other = next((part for part in _parts_given(call) if _may_round(script, part)), None)
    if other is not None:
        raise ByHand(f"line {line} computes {ast.unparse(other)} for {kind}, which autocast would round, too")
    statement = simple_statement(script, line, below)
    if not isinstance(statement, HOLDERS) or any(isinstance(part, SUSPENDS) for part in ast.walk(statement)):
        raise ByHand(f"line {line} cannot be parted: {below}")
    end = script.end(call)
    if isinstance(statement, ast.Expr) and statement.value is call:
        return indented(script, statement, context)
    if statement.value is call and _sets_names_only(statement):
        return [*indented(script, statement, context), TextEdit(end, end, ".float()")]
    return _taken_out(script, statement, call, context)


def _is_lightnings(script: ScriptText, node: ast.AST) -> bool:
    """Whether a node is in a module of Lightning, which its Trainer puts under autocast."""
    around = script.around(node)
    steps = {each.name for each in around if isinstance(each, Function)} & STEPS_OF_LIGHTNING
    bases = (base for each in around if isinstance(each, ast.ClassDef) for base in each.bases)
    return bool(steps) or any(OF_LIGHTNING in names_in(base) for base in bases)


def _parts_given(call: ast.Call) -> Iterator[ast.AST]:
    for given in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from ast.walk(given)


def _may_round(script: ScriptText, node: ast.AST) -> bool:
    """Whether autocast may compute a part of an argument in 16 bits."""
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Name):
            return func.id not in COUNTS or script.defines(func.id)
        return not isinstance(func, ast.Attribute) or func.attr not in AS_EVER or is_set(script, func)
    if isinstance(node, ast.Attribute):  # a property of the file's
        return script.defines(node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.value, Target):
        made = made_by(script, node.value, node)
        return made is not None and made.kind is not None and script.defines(made.kind)
    if isinstance(node, ast.Starred):  # what is made late is computed as it is packed out
        assigned = (each for each in ast.walk(script.tree) if isinstance(each, ast.Assign))
        lazy = (each for each in assigned if isinstance(each.value, ast.Call | ast.GeneratorExp))
        said = ast.unparse(node.value)
        return any(ast.unparse(target) == said for each in lazy for target in each.targets)
    return isinstance(node, ast.MatMult | ast.GeneratorExp)


def _sets_names_only(statement: ast.stmt) -> bool:
    """Whether nothing is computed for what a statement sets, or returns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = all(isinstance(target, ast.Name) for target in targets)
    return names and not isinstance(statement, ast.AugAssign)


def _taken_out(script: ScriptText, statement: ast.stmt, call: ast.Call, context: str) -> list[TextEdit]:
    """`loss = criterion(model(x), y)` in two statements: what `model(x)` returns gets a name."""
    below = f"put the call below `with {context}:`"
    within = script.around(call)
    path = within[within.index(statement) :]
    of_model = ast.unparse(call.func) + "."
    for outer, inner in zip(path, [*path[1:], call], strict=True):
        early = _comes_first(outer, inner, of_model)
        if not (early and (outer is statement or isinstance(outer, OPEN))):
            raise ByHand(f"line {call.lineno} computes something else before: {below}")
    used = names_in(script.tree) | {node.arg for node in ast.walk(script.tree) if isinstance(node, ast.arg)}
    free = (each for each in RESULTS if not (script.defines(each) or script.is_imported(each)))
    name = next((each for each in free if each not in used), None)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    begin, end, start = script.begin(call), script.end(call), script.begin(statement)
    parted = "(" not in script.text[begin:end].partition("\n")[0]  # its name alone, which would end there
    if name is None or parted or not script.is_alone(statement) or script.spans_lines(first, last):
        raise ByHand(f"line {first} cannot be parted: {below}")
    # The call stays where it is, for other changes inside it, and what stands before it goes behind it.
    line = script.newline + script.indent(first)
    return [
        TextEdit(start, begin, f"{line}{script.step(first)}{name} = ", context),
        *further_in(script, call.lineno, call.end_lineno or call.lineno),
        TextEdit(end, end, f"{line}{script.text[start:begin]}{name}.float()"),
    ]


def _comes_first(outer: ast.AST, inner: ast.AST, of_model: str) -> bool:
    """Whether a part of an expression is computed before all else in it, but for what is only looked up.

    An attribute of the model itself is not: its call may set it.
    """
    if isinstance(outer, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return outer.value is inner and (
            not isinstance(outer, ast.AugAssign) or _is_plain(outer.target, of_model)
        )
    before: list[ast.AST] = []
    for part in ast.iter_child_nodes(outer):
        if part is inner:
            break
        before.append(part)
    return all(_is_plain(part, of_model) for part in before)


def _is_plain(node: ast.AST, of_model: str) -> bool:
    parts = list(ast.walk(node))
    own = (
        part for part in parts if isinstance(part, ast.Attribute) and ast.unparse(part).startswith(of_model)
    )
    return all(isinstance(part, PLAIN) for part in parts) and not any(own)
