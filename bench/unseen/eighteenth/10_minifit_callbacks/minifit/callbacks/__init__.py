from .core import Callback, StopAfter
from .recorder import Recorder
from .training import Clip, Mixup, OneCycle
from .weights import BestKeeper, EMA

__all__ = ["Callback", "StopAfter", "Recorder", "Clip", "Mixup", "OneCycle", "BestKeeper", "EMA"]
