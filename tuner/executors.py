"""Executors: where the tasks of a study run. None of them changes a row; they differ in what may die without harm.

``inline``: in this process. ``ProcessExecutor``: in processes, each of which may die or hang alone. Dask:
``dask_executor``.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import local
from types import TracebackType
from typing import Any

from mapper.errors import SparseLoomError, StudyError

_CLOSED = (EOFError, ConnectionError)
"""What a pipe raises whose other end is gone."""


class WorkerLost(StudyError):
    """A task has no result because the process that ran it is gone."""


class Overdue(WorkerLost):
    """A task has no result because it was ended: it took too long."""


class NotStarted(StudyError, BrokenExecutor):
    """A process ended before it could take a task, as every other would."""

    def __init__(self, code: int | None) -> None:
        super().__init__(
            f"a worker process ended with exit code {code} while it started; what it said is above (nothing, where "
            "memory ran out). A script that asks for several workers must do so below `if __name__ == '__main__':`, as "
            "processes read it anew"
        )


class InlineExecutor(Executor):
    """Runs every task at once in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The finished future of ``fn(*args)``."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class ProcessExecutor(ThreadPoolExecutor):
    """``workers`` spawned processes, each prepared by ``initializer(*initargs)`` and led by a thread of its own.

    A task whose process dies fails with ``WorkerLost``. One that takes more than ``seconds``, or than its own attribute
    of that name, is ended together with its process and fails with ``Overdue``. Other tasks never notice: a new process
    takes the place. A process that dies before it takes a task is an error of all: ``NotStarted``. Leaving the ``with``
    block by an error ends all processes at once.
    """

    def __init__(
        self,
        workers: int,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        seconds: float | None = None,
    ) -> None:
        super().__init__(workers, thread_name_prefix="sparseloom-worker")
        self._prepare, self._seconds = (initializer, initargs), seconds
        self._own, self._processes, self._closing = local(), list[_Process](), False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of ``fn(*args, **kwargs)``, all of which must be possible to pickle."""
        return super().submit(self._run, fn, args, kwargs)

    def _run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seconds = getattr(fn, "seconds", None) or self._seconds
        if self._closing:
            raise WorkerLost("the executor was closed")
        process = self._process()
        try:
            process.start()
        except _CLOSED:
            raise NotStarted(process.end(patience=1.0)) from None
        try:
            succeeded, value = process.call((fn, args, kwargs), seconds)
        except _CLOSED:
            code = process.end(patience=1.0)
            raise WorkerLost(f"the worker process died with exit code {code}; out of memory?") from None
        except Overdue:
            process.end()
            raise
        if succeeded:
            return value
        raise value

    def _process(self) -> _Process:
        if not hasattr(self._own, "process"):
            self._own.process = _Process(self._prepare)
            self._processes.append(self._own.process)
        found: _Process = self._own.process
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes, after their tasks with ``wait``."""
        self._closing = not wait
        super().shutdown(wait, cancel_futures=cancel_futures)
        for process in self._processes:
            process.end()
        super().shutdown()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


class _Process:
    """A spawned process that answers calls one after the other; it starts when it is needed."""

    def __init__(self, prepare: tuple[Callable[..., object] | None, tuple[Any, ...]]) -> None:
        self._prepare = prepare
        self._running: tuple[Any, Connection] | None = None

    def start(self) -> None:
        """Starts the process unless it runs. EOFError or ConnectionError if it ends before it is prepared."""
        if self._running is not None:
            return
        given = pickle.dumps(self._prepare)
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        # It is prepared through our pipe: data among the arguments would wait forever for a process that ends early, as
        # this one holds both ends of the pipe in which they travel.
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        ours.send_bytes(given)
        ours.recv_bytes()

    def call(self, what: tuple[Any, tuple[Any, ...], dict[str, Any]], seconds: float | None) -> tuple[bool, Any]:
        """Whether a function succeeded, and its result or exception. ``Overdue`` after ``seconds``; EOFError or
        ConnectionError if the process dies."""
        assert self._running is not None
        pipe = self._running[1]
        pipe.send(what)
        pipe.recv_bytes()  # it begins: what starting and imports take is no part of the time of a task
        if not pipe.poll(seconds):
            raise Overdue(f"no result within {seconds:g} s")
        answer: tuple[bool, Any] = pickle.loads(pipe.recv_bytes())  # noqa: S301 - from our own process
        return answer

    def end(self, patience: float = 0.0) -> int | None:
        """Ends the process, if it does not end by itself; its exit code, None if it did not run."""
        running, self._running = self._running, None
        if running is None:
            return None
        process, pipe = running
        process.join(patience)
        process.kill()  # nothing happens to one that is dead
        process.join()
        pipe.close()
        code: int | None = process.exitcode
        return code


def _serve(pipe: Connection) -> None:
    """Body of a worker process: ends when its parent is gone. An interrupt from the keyboard is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        initializer, initargs = pickle.loads(pipe.recv_bytes())  # noqa: S301 - from our own parent
        if initializer is not None:
            initializer(*initargs)
        pipe.send_bytes(b"prepared")
        while True:
            call = pipe.recv_bytes()
            pipe.send_bytes(_answer(call, lambda: pipe.send_bytes(b"begun")))
    except _CLOSED:
        return


def _answer(call: bytes, begin: Callable[[], None]) -> bytes:
    try:
        try:
            fn, args, kwargs = pickle.loads(call)  # noqa: S301 - from our own parent
        finally:
            begin()
        return pickle.dumps((True, fn(*args, **kwargs)))
    except Exception as error:
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)  # noqa: S301 - some exceptions cannot be put together again
        except Exception:
            return pickle.dumps((False, SparseLoomError(f"{type(error).__name__}: {error}")))
        return answer
