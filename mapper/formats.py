"""Storage formats: the kind of every level, outer to inner, and the names users know them by."""

from __future__ import annotations

from dataclasses import dataclass

from mapper.errors import InputError, nearest

DENSE = "dense"
COMPRESSED = "compressed"

NAMED: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "csr": ((DENSE, COMPRESSED), (0, 1)),
    "csc": ((DENSE, COMPRESSED), (1, 0)),
    "dcsr": ((COMPRESSED, COMPRESSED), (0, 1)),
    "dcsc": ((COMPRESSED, COMPRESSED), (1, 0)),
}
"""Matrix formats with a fixed mode order; ``dense`` and ``csf`` (all compressed) exist for any order."""


@dataclass(frozen=True, slots=True)
class Format:
    """Level kinds, outer to inner; ``mode_order`` is None where the loop order may choose it."""

    kinds: tuple[str, ...]
    mode_order: tuple[int, ...] | None = None

    def __str__(self) -> str:
        for name, (kinds, order) in NAMED.items():
            if (kinds, order) == (self.kinds, self.mode_order):
                return name
        if self.kinds and len(set(self.kinds)) == 1 and self.mode_order is None:
            return DENSE if self.kinds[0] == DENSE else "csf"
        return ",".join(self.kinds) or DENSE


def parse_format(name: str, ndim: int) -> Format:
    """Format by name for a tensor of ``ndim`` modes: csr, csc, dcsr, dcsc, dense, csf, or level kinds separated
    by commas (``dense,compressed``: mode order left to the mapping). Raises InputError for any other name."""
    text = name.strip().lower()
    if text == DENSE:
        return Format((DENSE,) * ndim)
    if text == "csf":
        return Format((COMPRESSED,) * ndim)
    if text in NAMED:
        if ndim != 2:
            raise InputError(
                f"format {name!r} is for matrices, the tensor has {ndim} modes; use dense, csf or level kinds"
            )
        return Format(*NAMED[text])
    kinds = tuple(k.strip() for k in text.split(","))
    if len(kinds) != ndim or not set(kinds) <= {DENSE, COMPRESSED}:
        raise InputError(f"unknown format {name!r} for {ndim} modes.{nearest(name, [DENSE, 'csf', *NAMED])}")
    return Format(kinds)


def default_formats(ndim: int, density: float) -> tuple[Format, ...]:
    """Formats searched when the user names none: dense for full tensors, row-dense and fully compressed otherwise."""
    if ndim == 0 or density == 1.0:
        return (Format((DENSE,) * ndim),)
    compressed = Format((COMPRESSED,) * ndim)
    return (compressed,) if ndim == 1 else (Format((DENSE,) + (COMPRESSED,) * (ndim - 1)), compressed)
