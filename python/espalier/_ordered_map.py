"""OrderedMap: what is called most often is in _native, the rest is here."""

import copy
import itertools
import operator
import reprlib
import sys
from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView
from types import GenericAlias

import numpy

from espalier import _native

_KEYS, _VALUES, _ITEMS = range(3)
_64_BITS = numpy.iinfo(numpy.int64)


class _Keys(KeysView):
    __slots__ = ()

    def __reversed__(self):
        return reversed(self._mapping)


class _Values(ValuesView):
    __slots__ = ()

    def __contains__(self, value):
        # Without a look at each key, which may be removed meanwhile.
        return any(one is value or one == value for one in self)

    def __iter__(self):
        return self._mapping._walk(None, None, True, True, False, _VALUES)

    def __reversed__(self):
        return self._mapping._walk(None, None, True, True, True, _VALUES)


class _Items(ItemsView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping._walk(None, None, True, True, False, _ITEMS)

    def __reversed__(self):
        return self._mapping._walk(None, None, True, True, True, _ITEMS)


def _numbers(given):
    """An array of 64-bit integers, without a copy where it is one."""
    if not hasattr(given, "__array__"):
        return numpy.fromiter(map(operator.index, given), numpy.int64)
    array = numpy.asarray(given)
    if array.ndim != 1:
        raise ValueError("a batch has one dimension")
    if array.dtype.kind not in "iu":
        raise TypeError(f"a batch has integers, not {array.dtype}")
    if array.dtype.kind == "u" and array.size and array.max() > _64_BITS.max:
        raise OverflowError("the integer has more than 64 bits")
    return numpy.ascontiguousarray(array, numpy.int64)


class OrderedMap(_native.OrderedMap):
    """A sorted map that all threads may read and change. Keys are `int` (64 bits) or `bytes`; values are `int` (64 bits),
    `bytes` or `object`, which is anything."""

    __slots__ = ("_keys", "_values")
    __hash__ = None
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, entries=(), /, *, keys=int, values=object):
        super().__init__(keys, values)
        self._keys = keys
        self._values = values
        self.update(entries)

    def update(self, entries=(), /, **others):
        """Stores the entries of a mapping, or pairs."""
        # A walk, because another thread may remove a key before it is looked up.
        MutableMapping.update(self, entries.items() if isinstance(entries, OrderedMap) else entries, **others)

    __eq__ = Mapping.__eq__

    def keys(self):
        return _Keys(self)

    def values(self):
        return _Values(self)

    def items(self):
        return _Items(self)

    def __reversed__(self):
        return self._walk(None, None, True, True, True, _KEYS)

    def irange(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """The keys between two bounds, in order."""
        return self._between(minimum, maximum, inclusive, reverse, _KEYS)

    def irange_items(self, minimum=None, maximum=None, inclusive=(True, True), reverse=False):
        """The items whose keys lie between two bounds, in order."""
        return self._between(minimum, maximum, inclusive, reverse, _ITEMS)

    def _between(self, minimum, maximum, inclusive, reverse, part):
        low, high = map(bool, inclusive)
        if reverse:
            return self._walk(maximum, minimum, high, low, True, part)
        return self._walk(minimum, maximum, low, high, False, part)

    def ceiling(self, key):
        """The first item whose key is not smaller, or None."""
        return next(self._walk(key, None, True, True, False, _ITEMS), None)

    def higher(self, key):
        """The first item whose key is larger, or None."""
        return next(self._walk(key, None, False, True, False, _ITEMS), None)

    def floor(self, key):
        """The last item whose key is not larger, or None."""
        return next(self._walk(key, None, True, True, True, _ITEMS), None)

    def lower(self, key):
        """The last item whose key is smaller, or None."""
        return next(self._walk(key, None, False, True, True, _ITEMS), None)

    def peekitem(self, index=-1):
        """The item at an index: the first and the last in logarithmic time, others in linear time."""
        index = operator.index(index)
        from_end = index < 0
        steps = -index - 1 if from_end else index
        walk = self._walk(None, None, True, True, from_end, _ITEMS)
        for item in itertools.islice(walk, min(steps, sys.maxsize), None):
            return item
        raise IndexError("the map has no such index")

    def popitem(self, index=-1):
        """Removes the last item, or the one at an index, and returns it."""
        index = operator.index(index)
        if index in (0, -1):
            return self._pop(index == -1)
        while True:
            try:
                key, _ = self.peekitem(index)
            except IndexError:
                if not self:
                    raise KeyError("the map is empty") from None
                raise
            try:
                return key, self.pop(key)
            except KeyError:  # another thread has removed it
                continue

    def insert_many(self, keys, values):
        """Adds the entries whose keys are absent. Returns how many."""
        return self._insert_many(self._batch(self._keys, keys), self._batch(self._values, values), False)

    def assign_many(self, keys, values):
        """Adds the entries, or replaces their values. Returns how many keys were absent."""
        return self._insert_many(self._batch(self._keys, keys), self._batch(self._values, values), True)

    def find_many(self, keys):
        """The values, and a mask that says which keys are present: an array of 64-bit integers, 0 for an absent key, or a
        list, None for an absent key."""
        keys = self._batch(self._keys, keys)
        found = numpy.empty(len(keys), numpy.bool_)
        values = numpy.empty(len(keys), numpy.int64) if self._values is int else None
        return self._find_many(keys, values, found), found

    def erase_many(self, keys):
        """Removes the keys. Returns how many were present."""
        return self._erase_many(self._batch(self._keys, keys))

    @staticmethod
    def _batch(kind, given):
        return _numbers(given) if kind is int else tuple(given)

    def copy(self):
        """A map with the items that an iteration visits."""
        return copy.copy(self)

    def __reduce__(self):
        # Items apart, so that a map may be a value in itself. A class that derives may have another __init__, and a state of its
        # own; before Python 3.11 it has to name that for its slots.
        has_state = type(self) is not OrderedMap and hasattr(self, "__getstate__")
        state = self.__getstate__() if has_state else getattr(self, "__dict__", None)
        return _empty, (type(self), self._keys, self._values), state or None, None, iter(self.items())

    @reprlib.recursive_repr("OrderedMap(...)")
    def __repr__(self):
        items = ", ".join(f"{key!r}: {value!r}" for key, value in self.items())
        return f"OrderedMap({{{items}}}, keys={self._keys.__name__}, values={self._values.__name__})"


def _empty(kind, keys, values):
    made = kind.__new__(kind)
    OrderedMap.__init__(made, keys=keys, values=values)
    return made


MutableMapping.register(OrderedMap)
