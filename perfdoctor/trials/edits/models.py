"""Writes what is about the model that a line calls: around the call, or behind what makes it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from perfdoctor.facts.user_source.origins import base_name
from perfdoctor.facts.user_source.parse import Function, names_in
from perfdoctor.trials.edits.bindings import Target, bound_in
from perfdoctor.trials.edits.made import made_by
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.trials.edits.statements import indented, simple_statement

RESULTS = ("output", "outputs", "model_output", "predicted")  # names for what a model returns
# What comes before a call in a statement may stand behind it if it is one of these, made of these.
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.keyword, ast.operator, ast.unaryop, ast.expr_context)
# And a call may be taken out of these, whose parts are evaluated in the order of their fields.
OPEN = (ast.Call, ast.keyword, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Subscript)
HOLDERS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
SUSPENDS = (ast.Await, ast.NamedExpr)  # others run meanwhile; a name is bound in the middle
# What makes, moves, reshapes or converts what is handed to a model: autocast leaves it as it is.
AS_EVER = frozenset(
    "to cuda cpu float double long int bool view reshape flatten permute transpose squeeze unsqueeze expand "
    "repeat contiguous clone detach size masked_fill cat stack tensor as_tensor from_numpy zeros ones full "
    "rand randn randint arange zeros_like ones_like rand_like randn_like get".split()
)
COUNTS = frozenset(("len", "int", "float", "bool", "range"))
# Methods of tensors, arrays, containers and models: no models, unless the script sets one of that name.
METHODS = AS_EVER | frozenset(
    "item mean sum backward argmax argmin max min amax amin softmax log_softmax sigmoid tanh relu pow square "
    "abs sqrt rsqrt exp log log_prob sample numpy tolist append extend update add sub mul div matmul mm bmm "
    "t norm std var gather scatter index_select chunk split unbind topk sort eq ne lt gt le ge clamp roll "
    "nan_to_num step zero_grad keys values items pop format join strip unfold flip cumsum cumprod diag any "
    "all numel dim type type_as half bfloat16 requires_grad_ copy_ fill_ zero_ add_ mul_ div_ write train "
    "eval parameters named_parameters buffers modules children state_dict load_state_dict".split()
)
# What scripts call a model, and what they call something else that may be called beside it.
MODELS = frozenset(
    "model net network student teacher encoder decoder generator discriminator actor critic".split()
)
MEASURES = re.compile("loss|criterion|metric", re.IGNORECASE)
OF_LIGHTNING, OF_TORCH = "LightningModule", "Module"
STEPS_OF_LIGHTNING = frozenset(("training_step", "validation_step", "test_step", "predict_step"))


def called_at(script: ScriptText, line: int, kind: str) -> ast.Call:
    """The call at a line of a model whose class is called `kind`. Raises ByHand where it may be another.

    It is known by the statement that makes it; or, where a function of another file does, by its name, if the
    line calls nothing else that may be one.
    """
    certain: list[ast.Call] = []
    named: list[ast.Call] = []
    others: list[ast.Call] = []
    for call in script.calls(line):
        if not _may_be_kept(script, call.func):
            continue
        made = made_by(script, call.func, call)
        if made is not None and made.kind == kind:
            certain.append(call)
        elif isinstance(call.func, Target) and made is not None and made.kind is None:
            (named if script.name(call.func) in MODELS else others).append(call)
        elif made is None or not made.is_sure:
            others.append(call)
    others = [call for call in others if not MEASURES.search(ast.unparse(call.func))]
    found = certain + named
    if not found + others:
        raise ByHand(f"line {line} calls nothing that is {kind}")
    if len(found) != 1 or others:
        raise ByHand(f"line {line} does not show which call is that of {kind}")
    inside = (each for each in script.around(found[0]) if isinstance(each, ast.ClassDef))
    if any(_is_module(script, each) for each in inside):
        raise ByHand(f"line {line} is in a model itself, which may call {kind} within its own call")
    return found[0]


def _is_module(script: ScriptText, node: ast.ClassDef) -> bool:
    """Whether a class of the file is one of torch's modules, by its name for it."""
    return any(OF_TORCH in names_in(base) for each in _family(script, node.name) for base in each.bases)


def _family(script: ScriptText, name: str) -> list[ast.ClassDef]:
    """The classes of the file of that name, and all of the file that they inherit from."""
    classes = [each for each in ast.walk(script.tree) if isinstance(each, ast.ClassDef)]
    found = [each for each in classes if each.name == name]
    for each in found:  # which grows meanwhile
        names = {script.name(base) for base in each.bases}
        found += [one for one in classes if one.name in names and one not in found]
    return found


def _may_be_kept(script: ScriptText, node: ast.expr) -> bool:
    """Whether what is called may be an object that the script keeps: no function, class or known method."""
    if isinstance(node, ast.Name):
        return not (script.is_imported(node.id) or script.defines(node.id) or hasattr(builtins, node.id))
    if not isinstance(node, ast.Attribute):
        return True
    if script.is_imported(base_name(node) or ""):
        return False
    return _is_set(script, node) or not (node.attr in METHODS or script.defines(node.attr))


def _is_set(script: ScriptText, node: ast.Attribute) -> bool:
    """Whether the script sets an attribute of that name."""
    return bool(bound_in(script, script.tree, node))


# ---------------------------------------------------------------- around its call


def under(script: ScriptText, line: int, kind: str, context: str) -> list[TextEdit]:
    """The edits that put the call of a model below a `with`, and make what it returns float32.

    A call inside an expression gets a statement of its own before it: what else the expression computes
    stays as it is. Raises ByHand.
    """
    below = f"put the call of {kind} below `with {context}:`"
    if not script.knows_torch:
        raise ByHand(f"{script.path.name} does not begin with `import torch`: {below}")
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
        return not isinstance(func, ast.Attribute) or func.attr not in AS_EVER or _is_set(script, func)
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
    begin, end, indent = script.begin(call), script.end(call), script.indent(first)
    lines = script.text[begin:end].splitlines(keepends=True)
    parted = "(" not in lines[0]  # the name of the model alone, which a statement of its own would end
    if name is None or parted or not script.is_alone(statement) or script.spans_lines(first, last):
        raise ByHand(f"line {first} cannot be parted: {below}")
    step = script.step(first)
    said = lines[0] + "".join(step + line if line.strip() else line for line in lines[1:])
    head = f"{indent}with {context}:{script.newline}{indent}{step}{name} = {said}{script.newline}"
    before = script.begin_of_line(first)
    return [TextEdit(before, before, head), TextEdit(begin, end, f"{name}.float()")]


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


# ---------------------------------------------------------------- behind what makes it


def behind_making(script: ScriptText, line: int, kind: str, text: str) -> list[TextEdit]:
    """The edit that calls a method of the model that a line calls, right after it was made. Raises ByHand."""
    name = text.partition("(")[0]
    method = f"add {kind.lower()}.{text} behind what makes it"
    call = called_at(script, line, kind)
    made = made_by(script, call.func, call)
    if made is None or made.statement is None or made.kind != kind:
        raise ByHand(f"no single statement of {script.path.name} makes what line {line} calls: {method}")
    if script.is_torchs_name(kind) and not script.defines(kind):  # pytorch#150915
        raise ByHand(f"{name}() of torch's own {kind} does nothing")
    if script.defines(kind) and _has_own(script, kind, name):
        raise ByHand(f"{kind} may have its own {name}(): {method}")
    if script.defines(kind) and not _has_own(script, kind, "forward"):
        raise ByHand(f"{name}() of a class with torch's own forward() does nothing: {kind}")
    statement = made.statement
    if not script.is_alone(statement):
        raise ByHand(f"line {statement.lineno} says more than that: {method}")
    end = script.line_end(statement.end_lineno or statement.lineno)
    return [TextEdit(end, end, f"{script.newline}{script.indent(statement.lineno)}{made.name}.{text}")]


def _has_own(script: ScriptText, kind: str, name: str) -> bool:
    """Whether a class of the file may have an attribute of that name that is not torch's."""
    if bound_in(script, script.tree, ast.Attribute(ast.Name(kind), name)):
        return True
    family = _family(script, kind)
    bases = [base for each in family for base in each.bases]
    said = (node for each in family for node in each.body)
    return any(name in (getattr(node, "name", None), getattr(node, "id", None)) for node in said) or not all(
        script.defines(script.name(base)) or script.is_torchs(base) for base in bases
    )
