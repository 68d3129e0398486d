"""Finds the model that a line calls, and writes what is about it: at its call, or behind what makes it."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import replace

from perfdoctor.facts.user_source.origins import base_name
from perfdoctor.facts.user_source.parse import names_in
from perfdoctor.trials.edits.bindings import Target, bound_in
from perfdoctor.trials.edits.made import WRAPPED, Made, made_at, made_by, names_its_class
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.tweaks import OfArgument

# What makes, moves, reshapes or converts what is handed to a model: autocast leaves it as it is.
AS_EVER = frozenset(
    "to cuda cpu float double long int bool view reshape flatten permute transpose squeeze unsqueeze expand "
    "repeat contiguous clone detach size masked_fill cat stack tensor as_tensor from_numpy zeros ones full "
    "rand randn randint arange zeros_like ones_like rand_like randn_like get".split()
)
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
# Models of torch's own that a function of another file may make.
TORCHS_OWN = frozenset("Sequential Transformer TransformerEncoder LSTM GRU RNN Linear".split())
NAMES = ("model", "net", "module")  # for one that a function returns as it makes it
MEASURES = re.compile("loss|criterion|metric", re.IGNORECASE)
OF_TORCH = "Module"
TORCHS = "torch."  # in what is written, where the file needs that name


def called_at(script: ScriptText, line: int, kind: str) -> ast.Call:
    """The call at a line of a model whose class is called `kind`. Raises ByHand where it may be another.

    It is known by the statement that makes it; or, where the file does not show that, by its name, if it is
    the only one that the line calls.
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
        elif isinstance(call.func, Target) and (made is None or made.kind is None):
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
    return is_set(script, node) or not (node.attr in METHODS or script.defines(node.attr))


def is_set(script: ScriptText, node: ast.Attribute) -> bool:
    """Whether the script sets an attribute of that name."""
    return bool(bound_in(script, script.tree, node))


# ---------------------------------------------------------------- what it is called with


def on_argument(script: ScriptText, line: int, what: str, text: str) -> list[TextEdit]:
    """The edits that call a method of an argument of the model's call at a line. Raises ByHand.

    `what`: the argument and the model, as OfArgument tells them.
    """
    argument, kind = OfArgument.PLACE.fullmatch(what).groups()  # type: ignore[union-attr]
    method = f"add .{text} to {what}"
    if TORCHS in text:
        script.check_torch(line, method)
    call = called_at(script, line, kind)
    if argument.isdigit():
        given = call.args[: int(argument)]
        found = given[-1] if len(given) == int(argument) else None
        if any(isinstance(each, ast.Starred) for each in given):
            found = None
    else:
        found = next((each.value for each in call.keywords if each.arg == argument), None)
    if found is None or isinstance(found, ast.GeneratorExp):
        raise ByHand(f"line {line} does not show it: {method}")
    begin, end = script.begin(found), script.end(found)
    if isinstance(found, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return [TextEdit(end, end, f".{text}")]
    return [TextEdit(begin, begin, "("), TextEdit(end, end, f").{text}")]


# ---------------------------------------------------------------- behind what makes it


def behind_making(script: ScriptText, line: int, kind: str, text: str) -> list[TextEdit]:
    """The edit that calls a method of a model right after it was made. Raises ByHand.

    `line`: that made it, or, where the trial does not know that, one that calls it.
    """
    name = text.partition("(")[0]
    method = f"add {kind.lower()}.{text} behind what makes it"
    if TORCHS in text:
        script.check_torch(line, method)
    made = made_at(script, line, kind)
    if made is None and not names_its_class(script, line, kind):
        call = called_at(script, line, kind)
        made = made_by(script, call.func, call)
        if made is not None and made.kind is None and _is_of_a_library(made):
            made = replace(made, kind=kind)
    if made is None or made.statement is None or made.kind != kind:
        raise ByHand(f"no single statement of {script.path.name} makes what line {line} calls: {method}")
    if script.defines(kind) and _has_own(script, kind, name):
        raise ByHand(f"{kind} may have its own {name}(): {method}")
    is_torchs = script.is_torchs_name(kind) or (made.by is not None and kind in TORCHS_OWN)
    if name == "compile" and is_torchs and not script.defines(kind):  # pytorch#150915
        raise ByHand(f"{name}() of torch's own {kind} does nothing")
    if name == "compile" and script.defines(kind) and not _has_own(script, kind, "forward"):
        raise ByHand(f"{name}() of a class with torch's own forward() does nothing: {kind}")
    statement = made.statement
    if name != "compile" and made.name.endswith(WRAPPED):
        raise ByHand(f"line {statement.lineno} wraps it at once, and {name}() has to come before: {method}")
    if not script.is_alone(statement):
        raise ByHand(f"line {statement.lineno} says more than that: {method}")
    end = script.line_end(statement.end_lineno or statement.lineno)
    next_line = script.newline + script.indent(statement.lineno)
    if made.name:
        return [TextEdit(end, end, f"{next_line}{made.name}.{text}")]
    used = names_in(script.scope(statement.lineno))
    free = next((each for each in NAMES if each not in used), None)
    declared = (ast.Global, ast.Nonlocal)
    if free is None or any(isinstance(each, declared) for each in ast.walk(script.scope(statement.lineno))):
        raise ByHand(f"line {statement.lineno} returns it at once: {method}")
    begin = script.begin(statement)
    return [
        TextEdit(begin, begin + len("return"), f"{free} ="),
        TextEdit(end, end, f"{next_line}{free}.{text}{next_line}return {free}"),
    ]


def _is_of_a_library(made: Made) -> bool:
    """Whether a function of another file makes it, and wraps no other model."""
    by = made.by
    given = (part for each in (*by.args, *by.keywords) for part in ast.walk(each)) if by is not None else ()
    names = {ast.unparse(part).removeprefix("self.") for part in given if isinstance(part, Target)}
    return by is not None and names.isdisjoint(MODELS)


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
