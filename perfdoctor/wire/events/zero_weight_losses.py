"""Events of parts of the model whose loss has a weight of zero."""

from __future__ import annotations

from . import Event, Line


class ZeroWeightLossEvent(Event, name="zero_weight_loss"):
    """Calls of one line, in a sampled step, whose results got gradients of nothing but zeros."""

    look: int | None  # the number of the sampled step, as in ModuleCallsEvent
    module: str | None  # the type of the one that took longest
    calls: int  # those inside others left out
    seconds: float  # that they took
    # That all calls of models took in this step, where they record gradients; of one around calls with zeros,
    # what is inside it.
    called_s: float
    at: Line | None
