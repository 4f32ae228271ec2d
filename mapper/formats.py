"""Storage formats: the kind of every level, outer to inner, the type of values, and the names users know them by.

Level kinds: ``dense``, ``compressed``, ``bitmask``, ``nonunique`` (a compressed level that repeats its coordinate for
every entry, with ``singleton`` levels below: COO), ``rle`` (runs of equal values at consecutive coordinates), ``2:4``
(N of every M positions, any N and M) and ``4x4`` (blocks of so many rows and columns below a dense level, any size).
``docs/mappings.md`` gives the size of each, ``mapper/levels.py`` builds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mapper.dtypes import DTYPES, FP32
from mapper.errors import InputError, nearest
from mapper.tensor import SparseTensor, distinct_columns

DENSE = "dense"
COMPRESSED = "compressed"
BITMASK = "bitmask"
NONUNIQUE = "nonunique"
SINGLETON = "singleton"
RUNS = "rle"

PLAIN_KINDS = (DENSE, COMPRESSED, BITMASK, NONUNIQUE, SINGLETON, RUNS)
"""Level kinds without a size in their name."""

Kinds = tuple[str, ...]

NAMED: dict[str, tuple[Kinds, tuple[int, ...]]] = {
    "csr": ((DENSE, COMPRESSED), (0, 1)),
    "csc": ((DENSE, COMPRESSED), (1, 0)),
    "dcsr": ((COMPRESSED, COMPRESSED), (0, 1)),
    "dcsc": ((COMPRESSED, COMPRESSED), (1, 0)),
}
"""Matrix formats with a fixed mode order."""

FAMILIES: dict[str, Callable[[int], Kinds]] = {
    "dense": lambda n: (DENSE,) * n,
    "csf": lambda n: (COMPRESSED,) * n,
    "coo": lambda n: (NONUNIQUE,) + (SINGLETON,) * (n - 1),
    "bitmap": lambda n: (DENSE,) * (n - 1) + (BITMASK,),
    "rle": lambda n: (DENSE,) * (n - 1) + (RUNS,),
}
"""Formats for any number of modes, in the order in which the loops walk them."""

BITMAP_DENSITY = 0.1
"""Share of stored positions above which a bit per position is worth offering: with 32-bit coordinates it is smaller
from 1/32 on, but a scan of it passes words without elements."""

OFFERED_SLOTS = "2:4"
"""The N:M level that is offered, to tensors that keep it and fill more than half of its places."""


@dataclass(frozen=True, slots=True)
class Format:
    """Level kinds, outer to inner; ``mode_order`` is None where the loop order may choose it; ``dtype`` of values."""

    kinds: Kinds
    mode_order: tuple[int, ...] | None = None
    dtype: str = FP32

    def __str__(self) -> str:
        """The text that ``parse_format`` reads as this format."""
        suffix = "" if self.dtype == FP32 else f":{self.dtype}"
        return (self._name() or ",".join(self.kinds) or DENSE) + suffix

    def _name(self) -> str | None:
        if self.mode_order is not None:
            named = (name for name, known in NAMED.items() if known == (self.kinds, self.mode_order))
            return next(named, f"bcsr({self.kinds[-1]})" if block_of(self.kinds[-1]) else None)
        families = (name for name, kinds in FAMILIES.items() if self.kinds and kinds(len(self.kinds)) == self.kinds)
        dense_above = set(self.kinds[:-1]) <= {DENSE}
        return next(families, self.kinds[-1] if self.kinds and dense_above and slots_of(self.kinds[-1]) else None)


@cache
def slots_of(kind: str) -> tuple[int, int] | None:
    """(N, M) of a level that stores N of every M positions."""
    return _pair(r"(\d+):(\d+)", kind)


@cache
def block_of(kind: str) -> tuple[int, int] | None:
    """(rows, columns) of a level that stores blocks."""
    return _pair(r"(\d+)x(\d+)", kind)


def _pair(pattern: str, kind: str) -> tuple[int, int] | None:
    found = re.fullmatch(pattern, kind)
    return (int(found[1]), int(found[2])) if found else None


def pads(kinds: Kinds) -> bool:
    """Whether values of positions without an entry may be stored, as zeros."""
    return bool(kinds) and (kinds[-1] == DENSE or slots_of(kinds[-1]) is not None or block_of(kinds[-1]) is not None)


def writable(kinds: Kinds) -> bool:
    """Whether a result can be written level by level as its entries come: whether entries keep an N:M pattern, and
    where runs of equal values end, is not known before."""
    return not any(kind == RUNS or slots_of(kind) for kind in kinds)


def kinds_problem(kinds: Kinds) -> str | None:
    """What is wrong with a list of level kinds, None if nothing is."""
    for q, kind in enumerate(kinds):
        above, below = kinds[q - 1] if q else None, kinds[q + 1] if q + 1 < len(kinds) else None
        slots, block = slots_of(kind), block_of(kind)
        if kind not in PLAIN_KINDS and slots is None and block is None:
            return f"{kind!r} is no level kind: they are {', '.join(PLAIN_KINDS)}, N:M such as 2:4, RxC such as 4x4"
        if slots is not None and not 1 <= slots[0] <= slots[1]:
            return f"N:M needs 1 <= N <= M, got {kind}"
        if block is not None and (min(block) < 1 or below is not None or above != DENSE):
            return f"blocks ({kind}) of positive extents must be the last level, below a dense one"
        if kind == NONUNIQUE and below != SINGLETON:
            return f"a nonunique level must have a singleton level below it, got {below or 'none'}"
        if kind == SINGLETON and above not in (NONUNIQUE, SINGLETON):
            return f"a singleton level must stand below a nonunique or singleton one, got {above or 'none'}"
        if kind == RUNS and below is not None:
            return f"an rle level must be the last one, got {below} below it"
    return None


def parse_format(name: str, ndim: int) -> Format:
    """Format by name for a tensor of ``ndim`` modes: csr, csc, dcsr, dcsc, bcsr(RxC) for matrices; dense, csf, coo,
    bitmap, rle, N:M; or level kinds separated by commas (``dense,compressed``: mode order left to the mapping). A
    suffix ``:fp16``, ``:bf16`` or ``:int8`` narrows the values. Raises InputError for any other name."""
    text = re.sub(r"\s", "", name.lower())
    narrowed = re.fullmatch(r"(.+):([a-z]\w*)", text)
    body, dtype = narrowed.groups() if narrowed else (text, FP32)
    if dtype not in DTYPES:
        raise InputError(f"unknown value type in format {name!r}.{nearest(dtype, DTYPES)}")
    kinds, order = _kinds(name, body, ndim)
    return Format(kinds, order, dtype)


def _kinds(name: str, text: str, ndim: int) -> tuple[Kinds, tuple[int, ...] | None]:
    text = re.sub(r"n(?:m|:m)\((\d+),(\d+)\)", r"\1:\2", text)
    blocks, order = re.fullmatch(r"bcsr\((\d+x\d+)\)", text), None
    if (text in NAMED or blocks) and ndim != 2:
        raise InputError(f"format {name!r} is for matrices, the tensor has {ndim} modes; use dense, csf or level kinds")
    kinds: Kinds
    if text in NAMED:
        kinds, order = NAMED[text]
    elif blocks:
        kinds, order = (DENSE, blocks[1]), (0, 1)
    elif text == DENSE or (text in FAMILIES and ndim):
        kinds = FAMILIES[text](ndim)
    elif slots_of(text) and ndim:
        kinds = (DENSE,) * (ndim - 1) + (text,)
    else:
        kinds = tuple(text.split(","))
    if len(kinds) != ndim or not all(k in PLAIN_KINDS or slots_of(k) or block_of(k) for k in kinds):
        valid = [*NAMED, *FAMILIES, "bcsr(4x4)", "2:4"]
        raise InputError(
            f"unknown format {name!r} for {ndim} modes.{nearest(text, valid)} Or one level kind per mode, separated by "
            f"commas: {', '.join(PLAIN_KINDS)}, N:M, RxC. Suffixes {', '.join(f':{d}' for d in DTYPES)} give the type."
        )
    if problem := kinds_problem(kinds):
        raise InputError(f"format {name!r} for {ndim} modes: {problem}")
    return kinds, order


def default_formats(ndim: int, density: float) -> tuple[Format, ...]:
    """Formats that everybody would try: dense for full tensors, row-dense and fully compressed otherwise."""
    if ndim == 0 or density == 1.0:
        return (Format((DENSE,) * ndim),)
    compressed = Format((COMPRESSED,) * ndim)
    return (compressed,) if ndim == 1 else (Format((DENSE,) + (COMPRESSED,) * (ndim - 1)), compressed)


def offered_formats(tensor: SparseTensor) -> tuple[Format, ...]:
    """Formats searched where the user names none: the default ones, a bitmap for tensors that fill more than
    ``BITMAP_DENSITY``, and 2:4 for those that keep that pattern along a mode. O(nnz log nnz)."""
    offered = default_formats(tensor.ndim, tensor.density)
    if offered[0].kinds == (DENSE,) * tensor.ndim or tensor.density <= BITMAP_DENSITY:
        return offered
    names = ["bitmap"]
    n, m = slots_of(OFFERED_SLOTS) or (0, 0)
    if 2 * m * tensor.density > n and any(fullest_group(tensor, mode, m) <= n for mode in range(tensor.ndim)):
        names.append(OFFERED_SLOTS)
    return (*offered, *(parse_format(name, tensor.ndim) for name in names))


def fullest_group(tensor: SparseTensor, mode: int, m: int) -> int:
    """The most entries that any M neighbouring positions along ``mode`` hold, groups beginning at multiples of M."""
    at = tensor.coords.copy()
    at[mode] //= m
    return int(distinct_columns(at)[1].max(initial=0))
