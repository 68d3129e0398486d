"""How much a rank's model is called with: one whose samples are longer computes longer on as many."""

from __future__ import annotations

from typing import Any

from ...wire.events.ranks import InputSizeEvent
from ..loader.batch_content import leaves
from ..observer import Watch, observer
from ..session import Session
from ..wrapping import Args, Kwargs

CALLS_MAX = 200  # written; looks grow rarer as a run goes on


class InputSizes:
    """The calls of one rank that are looked at."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.calls = 0

    def called(self, args: Args, kwargs: Kwargs) -> None:
        """A model that trains is called, in a step in which calls are watched."""
        distributed = self.torch.distributed
        if self.calls >= CALLS_MAX or not (distributed.is_available() and distributed.is_initialized()):
            return
        self.calls += 1
        given = leaves((*args[1:], kwargs), self.torch.Tensor)
        self.session.write(InputSizeEvent(elements=sum(leaf.numel() for leaf in given)))


@observer
def input_sizes(watch: Watch) -> None:
    """Count what models are called with, in a few steps of each rank."""
    watch.on_sampled_call("input sizes", InputSizes(watch.session, watch.torch).called)
