"""Writers for other processes: a module of their own, so that a spawned process can import them by name."""

from __future__ import annotations

from sample_study import batch, fill, identity

from studies.store import StudyStore


def race(url: str, worker: int) -> None:
    store = StudyStore(url)
    fill(store, f"study-{worker}", 2)
    store.studies()


def commit_until_killed(url: str) -> None:
    store = StudyStore(url)
    study = store.open(identity(), "sample")
    number = 0
    while True:
        store.commit_batch(study, number, batch(number, pool=20))
        number += 1
