"""Files that begin like programs, for what must be refused by its header."""

import struct


def program(machine: int = 62, segment: int = 3, bits: int = 2) -> bytes:
    """The header of a program for x86-64 (or another machine) with one segment of a kind: 3 names an interpreter."""
    header = struct.pack("<4s12BHHIQQQIHHHHHH", b"\x7fELF", bits, 1, 1, *[0] * 9, 3, machine, 1, 0, 64, 0, 0, 64,
                         56, 1, 64, 0, 0)
    return header + struct.pack("<IIQQQQQQ", segment, 4, 0, 0, 0, 0, 0, 8)
