"""Types of the compiled token engine (``hwsim/core``)."""

from collections.abc import Sequence
from typing import Any

class Fault(Exception): ...

def run(
    contexts: Sequence[tuple[str, str, Sequence[int], Sequence[int], dict[str, Any], dict[str, Any]]],
    channels: Sequence[tuple[int, int, int]],
    tensors: int,
    dram: tuple[int, float, int, int, int, int, int, int, int, int] | None,
    limits: tuple[int, int, int, float],
    shuffle_seed: int | None,
    watch: tuple[int, Sequence[int]],
) -> dict[str, Any]: ...
def kinds() -> list[tuple[str, str, str, str]]: ...
