"""Concurrent ordered maps and a cache with a limit of memory. See docs/python.md."""

# First: NumPy, a recent one, refuses a second interpreter of the process, in which _native would damage the first one's classes.
from espalier._ordered_map import OrderedMap  # isort: skip
from espalier._native import Cache
from espalier._native import version as __version__
from espalier._results import read_results

Cache.__module__ = __name__

__all__ = ["Cache", "OrderedMap", "__version__", "read_results"]
