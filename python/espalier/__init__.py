"""Concurrent ordered maps and a cache with a limit of memory. See docs/python.md."""

from espalier._native import Cache
from espalier._native import version as __version__
from espalier._ordered_map import OrderedMap
from espalier._results import read_results

Cache.__module__ = __name__

__all__ = ["Cache", "OrderedMap", "__version__", "read_results"]
