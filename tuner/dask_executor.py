"""DaskExecutor: tasks of a study on a Dask cluster, its own on this machine or one that runs anywhere.

Each worker of the cluster gets the data of the study once, when it joins. Workers are meant to have one thread and a
nanny (``dask worker --nthreads 1``, the default of a cluster of one's own): a task that hangs ends with its worker.
"""

from __future__ import annotations

import faulthandler
import os
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from time import monotonic
from types import TracebackType
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin

from costmodel import MODEL_VERSION
from hwsim import SIMULATOR_VERSION
from mapper.errors import StudyError
from mapper.space import MappingSpace
from tuner.executors import WorkerLost
from tuner.work import drop, hold

LOCAL = "local"
"""Scheduler address that stands for a cluster of one's own."""

IN_FLIGHT = 64
"""Tasks that the cluster knows at once."""

CONNECT_SECONDS, GONE_SECONDS = 10.0, 60.0
"""How long to wait for a scheduler, and for a scheduler without a worker to get one."""

VERSIONS = (MODEL_VERSION, SIMULATOR_VERSION)


class DaskExecutor(ThreadPoolExecutor):
    """Runs tasks of ``session`` on the cluster of ``scheduler``: an address, or ``LOCAL`` for ``workers`` processes.

    A task whose workers died as often as the scheduler allows fails with ``WorkerLost``; it may be without guilt, as a
    scheduler blames all tasks that it had given to a worker.

    Raises StudyError for a scheduler that cannot be reached; all tasks fail with it when the scheduler goes away or has
    had no worker for ``GONE_SECONDS``.
    """

    def __init__(self, scheduler: str, workers: int, session: str, space: MappingSpace, over_inputs: str) -> None:
        self._cluster: LocalCluster | None = None
        self._scheduler, self._session = scheduler, session
        try:
            if scheduler == LOCAL:
                with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                    self._cluster = LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
                    )
            self._client = Client(self._cluster or scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as error:  # no answer, no address, no start
            raise StudyError(f"no Dask scheduler answers at {scheduler!r}: {error}") from error
        super().__init__(IN_FLIGHT, thread_name_prefix="sparseloom-dask")
        self._alive = monotonic()
        try:
            self._client.register_plugin(_Data(session, space, over_inputs), name=session)
        except BaseException:
            self.shutdown(wait=False)
            raise

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of ``fn(*args, **kwargs)`` on any worker."""
        return super().submit(self._run, fn, args, kwargs)

    def _run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._client.status != "running":
            raise self._gone("the connection is lost")
        task = self._client.submit(_ended_in_time, fn, args, kwargs, pure=False)
        while True:
            try:
                return task.result(timeout=1.0)
            except KilledWorker:
                limit = getattr(fn, "seconds", None)
                late = "" if limit is None else f" or no result within {limit:g} s"
                raise WorkerLost(f"the worker process died; out of memory{late}?") from None
            except CancelledError:
                raise self._gone("the connection is lost") from None
            except TimeoutError:
                if task.done():  # in time after all, or an error of its own
                    return task.result()
                self._look()

    def _look(self) -> None:
        """Raises StudyError when it is no use to wait any longer."""
        if monotonic() - self._alive < 1.0:
            return
        try:
            workers = self._client.sync(self._client.scheduler.ncores, callback_timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, AttributeError) as error:
            raise self._gone(f"no answer ({error})") from None
        if workers:
            self._alive = monotonic()
        elif monotonic() - self._alive > GONE_SECONDS:
            raise self._gone(f"it has had no worker for {GONE_SECONDS:g} s")

    def _gone(self, why: str) -> StudyError:
        text = f"the Dask scheduler {self._scheduler!r} is of no use any more: {why}"
        return StudyError(f"{text}. What was committed is kept; run the same command to go on")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes the data away from the workers and leaves the cluster; ends one of its own."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if self._client.status == "running":
            self._client.unregister_worker_plugin(self._session)
        self._client.close(CONNECT_SECONDS)
        if self._cluster is not None:
            self._cluster.close(CONNECT_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


class _Data(WorkerPlugin):  # type: ignore[misc]
    """Gives a worker of the cluster the data of a study when it joins."""

    def __init__(self, session: str, space: MappingSpace, over_inputs: str) -> None:
        self._given, self._versions = (session, space, over_inputs), VERSIONS

    def setup(self, worker: Any) -> None:
        """Raises StudyError for a worker with another cost model or simulator."""
        if self._versions != VERSIONS:
            raise StudyError(
                f"Dask worker {worker.address} has model and simulator {VERSIONS}, the study needs {self._versions}; "
                f"install the same sparseloom there"
            )
        hold(*self._given)

    def teardown(self, worker: Any) -> None:
        """Takes them away."""
        drop(self._given[0])


def _ended_in_time(task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The task in a worker, which ends itself if the task takes too long: nothing else ends a thread."""
    seconds = getattr(task, "seconds", None)
    if seconds is None:
        return task(*args, **kwargs)
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            return task(*args, **kwargs)
        finally:
            faulthandler.cancel_dump_traceback_later()
