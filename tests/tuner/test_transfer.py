"""Studies that begin with what others found."""

from __future__ import annotations

from pathlib import Path

import pytest

from mapper.errors import StudyError
from mapper.mapping import Loops, Mapping
from studies.frames import front
from studies.records import StudyContents, TrialRecord
from studies.spec import load_spec
from tuner.problem import Problem, load_problem
from tuner.session import open_session, run_session
from tuner.transfer import adapted, within

SPEC = """
program: Z(i,j) = A(i,k) * B(k,j)
name: NAME
tensors:
  A: {random: {kind: power_law, shape: [SIZE, SIZE], nnz: 300, seed: SEED}}
  B: {random: {kind: power_law, shape: [SIZE, SIZE], nnz: 300, seed: 2}}
machine: {preset: rda, fifo_depth: DEPTHS}
mapping: {parallel: {max: 4}}
search: {sampler: tpe, simulations: 6, batch: 3, candidates: 3, descents: 2, workers: 1EXTRA}
storage: sqlite:///study.db
"""


def problem(
    folder: Path, name: str, seed: int = 1, size: int = 60, depths: str = "[16, 64]", extra: str = ""
) -> Problem:
    text = SPEC.replace("NAME", name).replace("SEED", str(seed)).replace("SIZE", str(size)).replace("DEPTHS", depths)
    path = folder / f"{name}.yaml"
    path.write_text(text.replace("EXTRA", f", {extra}" if extra else ""))
    return load_problem(load_spec(path))


def run(problem: Problem) -> StudyContents:
    session = open_session(problem)
    run_session(session, 1, show=False)
    contents = session.store.load(session.study.name)
    session.store.close()
    return contents


def transferred(contents: StudyContents) -> list[TrialRecord]:
    return [t for t in contents.trials if t.origin]


def test_the_front_of_another_study_comes_first(tmp_path: Path) -> None:
    """Other data and other FIFO depths: the nearest depth is taken, and each mapping is simulated."""
    source = run(problem(tmp_path, "first"))
    mine = problem(tmp_path, "second", seed=7, depths="[4, 32]", extra="transfer: first")
    found = run(mine)
    taken = transferred(found)
    assert [t.number for t in taken] == list(range(len(taken)))
    assert 1 <= len(taken) <= 3
    assert {t.state for t in taken} == {"simulated"}
    origins = {f"first trial {t.number}": Mapping.from_json(t.mapping or {}) for t in front(source)}
    for row in taken:
        old, new = origins[str(row.origin)], Mapping.from_json(row.mapping or {})
        assert new.loops == old.loops
        assert dict(new.machine)["fifo_depth"] == {16: 4, 64: 32}[int(dict(old.machine)["fifo_depth"] or 0)]
    assert found.handle.transfers is not None
    assert [t.origin for t in found.handle.transfers] == [t.origin for t in taken]


def test_what_was_taken_is_kept(tmp_path: Path) -> None:
    """A study that is resumed after its source has gone has the rows of one that was never stopped."""
    for name in ("cut", "whole"):
        (tmp_path / name).mkdir()
        run(problem(tmp_path / name, "first"))
    whole = run(problem(tmp_path / "whole", "second", seed=7, extra="transfer: all"))
    mine = problem(tmp_path / "cut", "second", seed=7, extra="transfer: all")
    session = open_session(mine)
    session.store.delete(session.store.find("first"))
    session.store.close()
    assert run(mine).trials == whole.trials
    assert transferred(whole)


def test_the_model_sampler_starts_from_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuner.surrogate import Ingredients

    monkeypatch.setattr(
        "tuner.model_sampler.MAPPING_INGREDIENTS", Ingredients(candidates=8, startup=2, starts=1, rounds=1)
    )
    run(problem(tmp_path, "first"))
    mine = problem(tmp_path, "second", seed=7, extra="transfer: all")
    mine.spec.folder.joinpath("second.yaml").write_text(
        mine.spec.folder.joinpath("second.yaml").read_text().replace("sampler: tpe", "sampler: sparseloom")
    )
    found = run(load_problem(load_spec(tmp_path / "second.yaml")))
    assert transferred(found)
    assert all(t.gain is None for t in transferred(found))
    assert {t.state for t in transferred(found)} <= {"simulated", "failed"}


def test_nothing_to_take(tmp_path: Path) -> None:
    found = run(problem(tmp_path, "lonely", extra="transfer: all"))
    assert found.handle.transfers == ()
    assert not transferred(found)


def test_studies_that_cannot_be_taken_from(tmp_path: Path) -> None:
    other = problem(tmp_path, "other")
    path = tmp_path / "other.yaml"
    path.write_text(path.read_text().replace("A(i,k) * B(k,j)", "A(i,k) * B(j,k)"))
    session = open_session(load_problem(load_spec(path)))
    session.store.close()
    assert other.spec.name == "other"
    with pytest.raises(StudyError, match=r"'first' is not in sqlite.*, but must be another study\. Valid: none"):
        open_session(problem(tmp_path, "a", extra="transfer: first"))
    with pytest.raises(StudyError, match=r"study 'other' must be another study of the same program"):
        open_session(problem(tmp_path, "b", extra="transfer: [other]"))
    with pytest.raises(StudyError, match=r"'c' is this study itself"):
        open_session(problem(tmp_path, "c", extra="transfer: c"))


def test_a_start_that_fails_leaves_no_study(tmp_path: Path) -> None:
    """So that the corrected file is not refused as another specification of it."""
    with pytest.raises(StudyError, match="Valid: none"):
        open_session(problem(tmp_path, "first", extra="transfer: [s9]"))
    source = run(problem(tmp_path, "first"))
    with pytest.raises(StudyError, match="Did you mean 'first'"):
        open_session(problem(tmp_path, "second", extra="transfer: [frst]"))
    assert transferred(run(problem(tmp_path, "second", extra="transfer: first")))
    with pytest.raises(StudyError, match=r"'s9' is not in"):
        open_session(problem(tmp_path, "first", extra="transfer: [s9]"), restart=True)
    session = open_session(problem(tmp_path, "first"))
    assert session.store.load("first").trials == source.trials


def test_a_restarted_study_takes_nothing_from_itself(tmp_path: Path) -> None:
    run(problem(tmp_path, "lonely", extra="transfer: all"))
    session = open_session(problem(tmp_path, "lonely", extra="transfer: all"), restart=True)
    assert session.study.transfers == ()


def test_tiles_that_are_too_large_are_cut(tmp_path: Path) -> None:
    """Of extents 40: a tile of 64 becomes 32, one of 16 stays, one of 40 becomes 32."""
    space = problem(tmp_path, "small", size=40).space
    csr = ("dense", "compressed")
    mapping = Mapping(
        (),
        (Loops(("i", "k", "j"), (("i", 64), ("k", 16), ("j", 40))),),
        (("A", csr), ("B", csr), ("Z", csr)),
        machine=(("fifo_depth", 1000),),
        joins="locate",
    )
    cut = within(mapping, space.workload)
    assert cut.loops[0].tiles == (("i", 32), ("k", 16), ("j", 32))
    fitted = adapted(space, mapping)
    assert fitted is not None
    assert fitted.machine == (("fifo_depth", 64),)
    less = within(cut, problem(tmp_path, "tiny", size=18).space.workload)
    assert less.loops[0].tiles == (("i", 16), ("k", 16), ("j", 16))
