"""Finds graphs of past steps that are still alive, and the name of the script's that holds them.

A token is tied to every end of a looked-at step's graph: whatever still reaches into that graph, a kept
loss, a kept output or one term of the loss alone, keeps the token alive. A few times in a run it is also tied
to new graphs below the script's names that the loss is not made of. Once several old tokens are alive, the
names are searched for the one that holds them.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from itertools import islice
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ...wire.events.training import RetainedGraphsEvent
from ..containers import ends_of, fields_of, is_a, is_mapping, is_sequence, values_of
from ..frame_names import names_of
from ..loss_graph import variable_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..session import Session
from ..user_frames import is_users, line_of, user_frames

SEVERAL = 4  # graphs of different steps alive at once, beside this step's own
APART = 16  # steps between the oldest and now: a few steps' graphs are also kept on purpose
TOKENS_MAX = 64  # kept; past it every second one is let go
DEEPEST = 2_000  # nodes followed down a graph: the length of the longest path in a large model
NODES_MAX = 1_000  # of a graph walked for its ends, nearest to the loss first: about a microsecond each
AGO = 4  # steps: what the script still holds of one so long ago is no leftover of the last
HOPS = 64  # nodes followed back from a name's tensor
SEARCHES = 8  # of the script's names, in a whole run
NAMES_FROM = 4  # rows until graphs below the names are tied for the first time
NAMES_RARER = 1.5  # times more rows until the next time: with looks at each doubling, five times in 130 rows
NAMES_LOOKS = 8  # times that this is done
VISITS = 2_000  # objects below the names that are looked at each time
ENDS = 2  # items of a container looked at, at each end
ENTRIES = 64  # of a dict or of an object's attributes
LEVELS = 4  # of things inside things: `self.history["loss"][0][1]`
KEY = "perfdoctor"


class _GraphToken:
    """Lives as long as the node that it is tied to."""

    __slots__ = ("__weakref__",)


class _Names:
    """Finds tensors with a graph below the names of the user's frames on the stack, innermost first."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.seen: Set[int] = set()

    def holder(self, newest: float) -> Tuple[Optional[str], Optional[FrameType]]:
        """The first name that holds a graph too old to be this step's or the last one's, and its frame.

        `newest` is the number of the newest node that is too old.
        """
        found = (
            (name, frame) for name, frame, node, listed in self.graphs() if _is_kept(node, listed, newest)
        )
        return next(found, (None, None))

    def graphs(self) -> Iterator[Tuple[str, FrameType, Any, bool]]:
        """Name, frame, node, and whether the tensor is one of several in a list."""
        for frame in user_frames():
            for name, value in names_of(frame).items():
                for found, node, listed in self._below(name, value, LEVELS):
                    yield found, frame, node, listed

    def _below(
        self, name: str, value: Any, levels: int, listed: bool = False
    ) -> Iterator[Tuple[str, Any, bool]]:
        if is_a(value, self.tensor):
            if value.grad_fn is not None:
                yield name, value.grad_fn, listed
        elif levels and id(value) not in self.seen and len(self.seen) < VISITS:
            self.seen.add(id(value))
            if is_sequence(value):
                for item in ends_of(value, ENDS):
                    yield from self._below(name, item, levels - 1, True)
            elif is_mapping(value):
                for item in values_of(value, ENTRIES):
                    yield from self._below(name, item, levels - 1, listed)
            elif _is_of_users_class(value):
                for attribute, item in list(islice(fields_of(value).items(), ENTRIES)):
                    yield from self._below(f"{name}.{attribute}", item, levels - 1)


class RetainedGraphs:
    """The graphs of one process's training thread."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.tensor = torch.Tensor
        self.tokens: List[Tuple[weakref.ref[_GraphToken], int]] = []  # with the row of its step
        self.last = (0, 0)  # row and node number of the last graph that was looked at
        self.searches = 0
        self.names_looks = 0
        self.names_due: float = NAMES_FROM  # the row from which on names are looked below again
        self.names_number = 0  # of the newest node at the last such look
        self.most = 0  # alive at once
        self.holder: Tuple[Optional[str], Optional[Dict[str, Any]]] = (None, None)  # name, and where

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Count the old graphs that are alive, then tie a token to this one."""
        node, row = _node(loss), recorder.written
        if node is None or row == self.last[0]:
            return
        number = node._sequence_nr()
        per_row = (number - self.last[1]) / (row - self.last[0])
        self.last = row, number
        self.tokens = [token for token in self.tokens if token[0]() is not None]
        if len(self.tokens) >= SEVERAL and row - self.tokens[0][1] >= APART:
            self._found(row, number - AGO * per_row)
        if len(self.tokens) >= TOKENS_MAX:
            self.tokens = self.tokens[::2]
        token = _GraphToken()
        for end in (_deepest(node), *_ends([node]), *self._beside(row, number)):
            end.metadata.setdefault(KEY, token)  # an end that was kept has its own token already
        self.tokens.append((weakref.ref(token), row))

    def _beside(self, row: int, number: int) -> List[Any]:
        """The ends of new graphs below the script's names, where it is time for that."""
        if row < self.names_due or self.names_looks >= NAMES_LOOKS:
            return []
        self.names_looks += 1
        self.names_due = NAMES_RARER * row
        since, self.names_number = self.names_number, number
        nodes = [node for _, _, node, _ in _Names(self.tensor).graphs() if node._sequence_nr() > since]
        return _ends(nodes, since)

    def _found(self, row: int, newest: float) -> None:
        """Write it down whenever more are alive than ever, with the name that holds them."""
        if len(self.tokens) <= self.most:
            return
        self.most = len(self.tokens)
        if self.holder[0] is None and self.searches < SEARCHES:
            self.searches += 1
            name, frame = _Names(self.tensor).holder(newest)
            self.holder = name, None if frame is None else line_of(frame)
        name, at = self.holder
        self.session.write(
            RetainedGraphsEvent(graphs=self.most, rows=row - self.tokens[0][1], name=name, at=at)
        )


@observer
def retained_graph(watch: Watch) -> None:
    """Look for graphs of past steps before a few of the backwards."""
    watch.before_some_backwards("retained", RetainedGraphs(watch.session, watch.torch).sample)


def _node(loss: Any) -> Any:
    if is_a(loss, (list, tuple)):
        loss = loss[0] if loss else None
    return getattr(loss, "grad_fn", None)


def _deepest(node: Any) -> Any:
    """The last node on a path away from the loss, before the parameters."""
    for _ in range(DEEPEST):
        below = next((parent for parent, _ in node.next_functions if not _is_leaf(parent)), None)
        if below is None:
            break
        node = below
    return node


def _ends(roots: List[Any], since: int = -1) -> List[Any]:
    """The nodes at which the paths down from these end: before parameters or what is as old as `since`."""
    seen, walked, ends = set(roots), deque(roots), []
    for _ in range(NODES_MAX):
        if not walked:
            break
        node = walked.popleft()
        below = [
            parent
            for parent, _ in node.next_functions
            if not _is_leaf(parent) and parent._sequence_nr() > since
        ]
        if not below:
            ends.append(node)
        new = [parent for parent in below if parent not in seen]
        seen.update(new)
        walked.extend(new)
    return ends


def _is_kept(node: Any, listed: bool, newest: float) -> bool:
    """Whether a graph reaches back to node number `newest` or further, followed along its oldest parents.

    A sum is a new node over old ones; a lone tensor that is old itself is one step's, such as the best.
    """
    if not listed and node._sequence_nr() <= newest:
        return False
    for _ in range(HOPS):
        if node._sequence_nr() <= newest:
            return True
        parents = [parent for parent, _ in node.next_functions if not _is_leaf(parent)]
        if not parents:
            return False
        node = min(parents, key=lambda parent: int(parent._sequence_nr()))
    return False


def _is_leaf(node: Any) -> bool:
    return node is None or variable_of(node) is not None


def _is_of_users_class(value: Any) -> bool:
    """Whether attributes may hold what the script keeps: an object of a class of its own."""
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None)
    return is_a(file, str) and is_users(file)
