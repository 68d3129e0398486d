"""What is said of calls that repeat earlier ones: shared by the tips about them."""

from __future__ import annotations

from perfdoctor.model.change import Estimate

SURE = 0.8  # of their share goes: it was sampled, and a result may differ where it was not compared
MORE = 1.05  # at best: what is made anew each time takes caches and memory from all else, too


def goes(share: float) -> Estimate:
    """What goes with calls of that share."""
    return Estimate(SURE * share, share, min(1.0, MORE * share))


def came_again(name: str, seen: int, arguments: int, in_all: int | None) -> str:
    """What a look at `seen` calls of a function has shown of their arguments."""
    if in_all is not None:
        came = f"by how often the arguments of `{name}` came again in {seen} calls"
        return f"{came}, there are about {in_all:,} different ones"
    if arguments > 1:
        return f"the {seen} calls of `{name}` looked at had {arguments} different arguments in all"
    return f"all {seen} calls of `{name}` looked at had the same arguments and result"


def cached(name: str) -> str:
    """What to write around such a function. An operator of an object has none to write it around."""
    if name.rpartition(".")[2].startswith("__"):
        return "@functools.lru_cache(...)  # on a function of its own for what the line does"
    return f"functools.lru_cache(...)({name})  # gives again what it gave before"
