"""Tasks for executors that run in other processes, some of which do not end well. A test module cannot hold them: those
processes do not find it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from mapper.errors import NotationError
from mapper.machine import Machine
from mapper.mapping import Mapping
from mapper.space import MappingSpace

prepared: list[int] = []


def prepare() -> None:
    prepared.append(os.getpid())


def die_at_start(data: bytes) -> None:
    die()


def how_often_prepared() -> tuple[int, int]:
    return os.getpid(), len(prepared)


def square(x: float) -> float:
    return x * x


def slow_square(x: float) -> float:
    time.sleep(0.2 if x < 2 else 0.0)
    return x * x


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(600)


def late_by_itself() -> None:
    raise TimeoutError("the compiler")


def misread() -> None:
    raise NotationError("odd", "text", 1, 1)  # which cannot be pickled


def evaluated(point: dict[str, str]) -> float:
    {"dies": die, "hangs": hang, "is late": late_by_itself}.get(point["x"], int)()
    return {"nan": float("nan"), "inf": float("inf")}.get(point["x"], 1.0)


class Trap(MappingSpace):
    """A space whose mappings with two lanes or more end badly, but only when they are simulated."""

    ending = "die"
    marks: Path | None = None

    def machine_of(self, mapping: Mapping) -> Machine:
        simulated = sys._getframe(1).f_code.co_name == "run"
        if simulated and any(loops.lanes > 1 for loops in mapping.loops):
            {"die": die, "die once": self.die_once, "hang": hang, "raise": self.fail}[self.ending]()
        return super().machine_of(mapping)

    def die_once(self) -> None:
        assert self.marks is not None
        if not (mark := self.marks / "mark").exists():
            mark.touch()
            die()

    def fail(self) -> None:
        raise ZeroDivisionError("lanes")


class UnluckyTrap(Trap):
    ending = "die once"


class DeadlyTrap(Trap):
    ending = "die"


class HangingTrap(Trap):
    ending = "hang"


class RaisingTrap(Trap):
    ending = "raise"


class Counted(MappingSpace):
    """A space that counts how often it was unpacked in a process."""

    arrivals = 0

    def __init__(self, space: MappingSpace) -> None:
        super().__init__(space.workload, space.machine, space.limits, space.inputs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).arrivals += 1
        self.__dict__.update(state)


def arrivals() -> int:
    return Counted.arrivals


def held() -> int:
    from tuner.work import _workers

    return len(_workers)


def cluster(workers: int) -> Any:
    """Body of a process: a scheduler with workers, its address on standard output."""
    from distributed import LocalCluster

    found = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    print(found.scheduler_address, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    cluster(int(sys.argv[1]))
