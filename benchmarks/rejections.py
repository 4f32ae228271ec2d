"""How many candidates of a study lower bounds reject, whether any of them is on the front after all, and how good the
best of the study is beside an exhaustive list.

    python benchmarks/rejections.py [--quick] [--json FILE] [--audit N]

Runs ``examples/wiki_vote.yaml`` in a folder of its own (needs SPARSELOOM_DATA), counts the verdicts of its legal
candidates, and simulates N (20) of those that bounds rejected and that do not exceed the limit of tokens, drawn at
random. A candidate counts as on the front if no simulated row of the study is as good everywhere and better somewhere.
The list has every order, tile shape and residency of ``LIST``, four lanes, FIFOs of 64. A mapping whose bound is above
the study's best cannot beat it; the others are simulated, those that look best first, at most MOST_SIMULATED per
objective.
``--quick``: 24 simulations instead of 72, 5 audits, no list.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

LEAST_SHARE = 0.2
LIST = {"tiles": (16, 64, 256, 1024), "residency": ("lru", "keep"), "lanes": 4, "fifo_depth": 64}
MOST_SIMULATED = 40


def audited(problem: Any, trials: Any, count: int) -> tuple[int, int]:
    """(rejected candidates simulated, those on the front)."""
    from hwsim import Limits
    from mapper.mapping import Mapping
    from tuner.dominance import BY_BOUND
    from tuner.work import Worker

    objectives, worker = problem.spec.objectives, Worker(problem.space, problem.spec.search.over_inputs)
    ran = np.array([[t.values[o] for o in objectives] for t in trials if t.state == "simulated" and not t.verdicts])
    rejected = [t for t in trials if t.state == "screened" and {v.rule for v in t.verdicts} == {BY_BOUND}]
    drawn = np.random.default_rng(0).choice(len(rejected), min(count, len(rejected)), replace=False)
    found = 0
    for n in sorted(drawn.tolist()):
        result = worker.simulate(Mapping.from_json(rejected[n].mapping), Limits())
        if result.failure is None:
            own = np.array([result.values[o] for o in objectives])
            found += not ((ran <= own).all(axis=1) & (ran < own).any(axis=1)).any()
    return len(drawn), found


def listed(problem: Any) -> Iterator[Any]:
    """The legal mappings of ``LIST``, all of them points of the space."""
    from mapper.mapping import Loops, Mapping

    (statement,) = problem.space.workload.program.statements
    kinds = tuple((t, ("compressed", "compressed")) for t in ("A", "Z"))
    knobs = (("fifo_depth", LIST["fifo_depth"]),)
    for order in itertools.permutations(statement.indices):
        for sides in itertools.product(LIST["tiles"], repeat=len(order)):
            loops = Loops(order, tuple(zip(order, sides, strict=True)), (("i", LIST["lanes"], "balanced"),))
            for residency in LIST["residency"]:
                mapping = Mapping((), (loops,), kinds, residency, knobs, joins="locate")
                if not problem.space.violations(mapping):
                    problem.space.params(mapping)  # raises for a mapping outside the space
                    yield mapping


def exhaustive(problem: Any, trials: Any) -> dict[str, Any]:
    """Per objective: the study's best, and the best of the list as far as bounds do not settle that it is worse."""
    from hwsim import Limits
    from tuner.work import Worker

    worker, most = Worker(problem.space, problem.spec.search.over_inputs), problem.spec.limits.tokens
    estimates = [(m, found) for m in listed(problem) if (found := worker.screen(m).estimate) is not None]
    ran, found = dict[str, dict[str, float]](), {"points": len(estimates)}
    for objective in problem.spec.objectives:
        best = min(t.values[objective] for t in trials if t.state == "simulated")
        open_ = sorted((e[objective], m.key, m) for m, e in estimates if e["bounds"][objective] < best)
        for _, key, mapping in open_[:MOST_SIMULATED]:
            if key not in ran and (result := worker.simulate(mapping, Limits(max_tokens=most))).failure is None:
                ran[key] = result.values
        values = [ran[key][objective] for _, key, _ in open_ if key in ran]
        found[objective] = {
            "study": best, "not_settled_by_bounds": len(open_), "simulated": len(values),
            "list": min(values, default=None), "study_over_list": best / min(values) if values else None,
            "least_estimate_not_simulated": min((e for e, key, _ in open_ if key not in ran), default=None),
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a shorter study")
    parser.add_argument("--json", type=Path, help="file for the summary")
    parser.add_argument("--audit", type=int, help="rejected candidates to simulate")
    options = parser.parse_args()

    from studies.audits import audits, coverages
    from studies.spec import load_spec
    from studies.store import StudyStore
    from tuner.problem import load_problem
    from tuner.session import open_session, run_session

    started, text = time.perf_counter(), (ROOT / "examples" / "wiki_vote.yaml").read_text()
    if options.quick:
        text = text.replace("simulations: 72", "simulations: 24")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wiki_vote.yaml"
        path.write_text(text)
        problem = load_problem(load_spec(path))
        session = open_session(problem)
        run_session(session, 1, show=False)
        session.store.close()
        store = StudyStore(problem.spec.storage)
        contents = store.load(session.study.name)
        store.close()
    legal = [t for t in contents.trials if t.state in ("screened", "simulated", "failed")]
    rules = Counter(t.verdicts[0].rule for t in legal if t.verdicts)
    share = rules["dominated-by-bound"] / len(legal)
    for rule, count in rules.most_common():
        print(f"{rule:<24}{count:>6} of {len(legal)} legal candidates")
    for audit in audits(contents):
        print(f"audits of {audit.rule}: {audit.audited}, {audit.on_front} on the front, regret {audit.regret:.4f}")
    for covered in coverages(contents):
        print(f"intervals of {covered.measure} held {covered.inside} of {covered.trials}")
    tried, found = audited(problem, contents.trials, options.audit or (5 if options.quick else 20))
    beside = {} if options.quick else exhaustive(problem, contents.trials)
    for name, value in beside.items():
        print(f"list: {name} {value}")
    seconds = time.perf_counter() - started
    print(f"bounds alone reject {share:.1%}; {tried} of them audited, {found} on the front; {seconds:.0f} s")
    if options.json:
        summary = {
            "legal": len(legal),
            "rules": dict(rules),
            "share": share,
            "audited": tried,
            "on_front": found,
            "list": beside,
        }
        options.json.write_text(json.dumps({"summary": summary, "rows": []}, indent=2) + "\n")
    if found or share < LEAST_SHARE:
        raise SystemExit(f"at least {LEAST_SHARE:.0%} must be rejected and none of them be on the front")


if __name__ == "__main__":
    main()
