"""Embedding tables with dense gradients, and how many of their rows a batch looks up.

The graph of a loss is walked before a few of the backwards. It holds the indices of each look-up. On a CPU
the different ones are counted; elsewhere their number is the most rows that can get a gradient, and no device
has to be waited for to know it.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

from ...wire.events.embeddings import EmbeddingTableEvent
from ..constructor_lines import ConstructorLines
from ..looks.op_recording import recording_question
from ..loss_graph import LOOKUPS, nodes_of, operation_of, variable_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..saved_tensors import is_saved_plainly, watch_hooks
from ..steps.steps import StepTracker

SAMPLED = (8, 16, 32)  # backwards: by then every optimizer is there
LARGE = 1 << 20  # bytes of a table: filling a smaller gradient takes microseconds
TOLD_MAX = 10  # tables of one backward
COUNTED_MAX = 1 << 16  # indices that are sorted to count the different ones: a few milliseconds


class EmbeddingTables:
    """The sampled graphs of one process."""

    def __init__(self, steps: StepTracker, lines: ConstructorLines) -> None:
        self.steps = steps
        self.lines = lines
        self.is_recording = recording_question()
        self.due: List[int] = list(SAMPLED)
        self.roots: List[weakref.ref[Any]] = []

    def root_seen(self, module: Any, size: int) -> None:
        """The script called a model for the first time."""
        self.roots.append(weakref.ref(module, self.roots.remove))

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Walk the graph of a loss, if it is time."""
        if not self.due or self.steps.schedule.backwards < self.due[0] or self.is_recording():
            return
        self.due.pop(0)
        if type(loss) is not self.steps.torch.Tensor or loss.grad_fn is None:
            return
        for table, lookups, calls in looked_up(nodes_of(loss.grad_fn) or [])[:TOLD_MAX]:
            optimizer, own, every = self._optimizer_of(table)
            if optimizer is None:
                continue
            path, line = self._place_of(table)
            self.steps.session.write(
                EmbeddingTableEvent(
                    path=path,
                    rows=len(table),
                    bytes=table.numel() * table.element_size(),
                    lookups=lookups,
                    calls=calls,
                    optimizer=type(optimizer).__name__,
                    of_elements=table.numel() / own,
                    of_all=table.numel() / every,
                    at=line,
                )
            )

    def _optimizer_of(self, table: Any) -> Tuple[Any, int, int]:
        """The optimizer that has the table, the elements that it has, and those that all of them have."""
        found, own, every = None, 0, 0
        for optimizer in self.lines.optimizers:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            elements = sum(p.numel() for p in parameters)
            every += elements
            if any(p is table for p in parameters):
                found, own = optimizer, elements
        return found, own, every

    def _place_of(self, table: Any) -> Tuple[str, Optional[Dict[str, Any]]]:
        """The path of the module that holds the table, and the line that constructed it."""
        for root in (reference() for reference in list(self.roots)):
            for name, module in self.steps.torch.nn.Module.named_modules(root) if root is not None else ():
                if module._parameters.get("weight") is table:
                    return name, self.lines.line_of(root, name)
        return "", None


@observer
def embedding_tables(watch: Watch) -> None:
    """Walk the graph of a loss before three of the early backwards."""
    tables = EmbeddingTables(watch.steps, watch.lines)
    watch_hooks(watch.torch)
    watch.on_model("embeddings", tables.root_seen)
    watch.before_some_backwards("embeddings", tables.sample)


def looked_up(nodes: List[Any]) -> List[Tuple[Any, int, int]]:
    """Large tables that get a dense gradient from look-ups alone: the rows of these, and their number."""
    lookups: Dict[Any, List[int]] = {}  # by the node of the table
    elsewhere = set()  # used as a matrix, too: its gradient is dense anyway
    for node in nodes:
        leaves = [parent for parent, _ in node.next_functions if variable_of(parent) is not None]
        sparse = getattr(node, "_saved_sparse", True)
        if operation_of(node) not in LOOKUPS or sparse or len(leaves) != 1:
            elsewhere.update(leaves)
        elif _is_large(leaves[0].variable):
            if is_saved_plainly(node._raw_saved_indices):
                lookups.setdefault(leaves[0], []).append(_rows_of(node._saved_indices))
            else:
                elsewhere.add(leaves[0])  # how many it looks up is not known
    return [(node.variable, sum(rows), len(rows)) for node, rows in lookups.items() if node not in elsewhere]


def _is_large(table: Any) -> bool:
    return int(table.numel() * table.element_size()) >= LARGE


def _rows_of(indices: Any) -> int:
    """The most rows that these look up."""
    if type(indices) is sys.modules["torch"].Tensor and indices.is_cpu and indices.numel() <= COUNTED_MAX:
        return int(indices.unique().numel())
    return int(indices.numel())
