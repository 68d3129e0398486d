"""`dataclasses.dataclass`, which completes a frozen class when it is first used, not when it is declared.

The library compiles functions for each class: with some 300 classes, most of which a report makes no object
of, a quarter of its time (Python 3.11). Here it does so when the first object of a class is made, or its
fields are asked for. To compare, to hash, to show and to refuse changes takes no code of a class's own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # type checkers know dataclasses by this name alone
else:
    from functools import cache
    from operator import attrgetter
    from threading import RLock

    FIELDS = "__dataclass_fields__"  # by which the library knows its classes
    READ = ("__module__", "__qualname__", "__post_init__")  # what it reads of a class, beside the fields
    completing = RLock()  # a signal handler may need a class that it interrupts

    def dataclass(declared=None, /, *, frozen=False):
        """As in the library, of which only `frozen` is taken."""
        return _frozen if frozen else dataclasses.dataclass(declared)

    def _frozen(declared):
        if declared.__bases__ == (object,) and "__init__" not in vars(declared):
            _add(declared, {"__init__": _first_init(declared), FIELDS: _LaterFields(declared), **REFUSING})
        else:
            _by_the_library(declared)
        _add(declared, COMPARING)
        return declared

    def _by_the_library(declared):
        return dataclasses.dataclass(declared, frozen=True, repr=False, eq=False)

    def _add(declared, attributes):
        for name, value in attributes.items():
            if name not in vars(declared):
                setattr(declared, name, value)

    def _first_init(declared):
        def first(self, /, *values, **named):
            _complete(declared)
            declared.__init__(self, *values, **named)

        return first

    class _LaterFields:
        """The fields of a class that is not complete yet."""

        def __init__(self, declared):
            self.declared = declared

        def __get__(self, made, kind=None):
            _complete(self.declared)
            return vars(self.declared)[FIELDS]

    def _complete(declared):
        """Give the class what the library gives to a twin with the same fields.

        The library itself would leave the class without a constructor for a moment, in which another thread
        may make an object.
        """
        own, annotations = vars(declared), declared.__annotations__
        with completing:
            if not isinstance(own[FIELDS], _LaterFields):
                return  # another thread came first
            read = {name: own[name] for name in (*READ, *annotations) if name in own}
            twin = _by_the_library(type(declared.__name__, (), {"__annotations__": annotations, **read}))
            for name, value in read.items():
                if isinstance(value, dataclasses.Field):
                    delattr(declared, name)  # the twin has its default, where there is one
            _add(declared, vars(twin))
            setattr(declared, FIELDS, getattr(twin, FIELDS))
            declared.__init__ = twin.__init__

    def _equals(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = _compared(self.__class__)
        return compared(self) == compared(other)

    def _hashed(self):
        return hash(_counted(self.__class__)(self))

    def _text(self):
        told = (
            f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
        )
        return f"{type(self).__qualname__}({', '.join(told)})"

    def _refuse(self, name, *value):
        raise dataclasses.FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")

    COMPARING = {"__eq__": _equals, "__hash__": _hashed, "__repr__": _text}
    REFUSING = {"__setattr__": _refuse, "__delattr__": _refuse}

    @cache
    def _compared(kind):
        return _values(field for field in dataclasses.fields(kind) if field.compare)

    @cache
    def _counted(kind):
        fields = dataclasses.fields(kind)
        return _values(field for field in fields if (field.compare if field.hash is None else field.hash))

    def _values(fields):
        names = [field.name for field in fields]
        return attrgetter(*names) if names else type
