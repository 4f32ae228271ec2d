"""Session: a problem with its place in a database, run under a progress bar."""

from __future__ import annotations

from dataclasses import dataclass

from studies.inputs import dataset_records
from studies.records import StudyHandle
from studies.store import StudyStore
from tuner.loop import Progress, run_study
from tuner.problem import Problem
from tuner.transfer import transfers


@dataclass(frozen=True, eq=False)
class Session:
    """An opened study."""

    problem: Problem
    store: StudyStore
    study: StudyHandle


def open_session(problem: Problem, *, restart: bool = False, fork: bool = False) -> Session:
    """Creates the study of ``problem`` or finds it for resumption (StudyError if its specification changed)."""
    store = StudyStore(problem.spec.storage)
    identity, name, begin = problem.identity, problem.spec.name, None
    datasets = dataset_records(problem.spec, problem.space.inputs)
    place = store.place(identity, name, restart=restart, fork=fork)
    if problem.spec.search.transfer and (place.resumed is None or place.resumed.transfers is None):
        begin = transfers(problem, store, place.name)  # before the study is there: what is wrong here leaves none
    study = store.open(identity, name, datasets=datasets, restart=restart, fork=fork)
    return Session(problem, store, study if begin is None else store.set_transfers(study, begin))


def run_session(session: Session, workers: int, show: bool, scheduler: str | None = None) -> str:
    """Runs to the end of the budget, on the Dask ``scheduler`` if there is one; returns the reason for stopping."""
    if not show:
        return run_study(session.problem, session.store, session.study, workers, lambda _: None, scheduler)
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("ETA"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )  # fmt: skip
    with Bar(*columns) as bar:
        task = bar.add_task("simulating", total=session.problem.spec.search.simulations)

        def update(progress: Progress) -> None:
            text = f"asked {progress.asked}, screened {progress.screened}, failed {progress.failed}, simulated"
            bar.update(task, completed=progress.simulated, description=text)

        return run_study(session.problem, session.store, session.study, workers, update, scheduler)
