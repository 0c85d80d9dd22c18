"""Turns benchmark results of Espalier into one self-contained HTML page."""
