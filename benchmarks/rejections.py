"""How many candidates of a study lower bounds reject, and whether any of them is on the front after all.

    python benchmarks/rejections.py [--quick] [--json FILE] [--audit N]

Runs ``examples/wiki_vote.yaml`` in a folder of its own (needs SPARSELOOM_DATA), counts the verdicts of its legal
candidates, and simulates N (20) of those that bounds rejected and that do not exceed the limit of tokens, drawn at
random. A candidate counts as on the front if no simulated row of the study is as good everywhere and better somewhere.
``--quick``: 24 simulations instead of 72, and 5 audits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

LEAST_SHARE = 0.2


def audited(problem: Any, trials: Any, count: int) -> tuple[int, int]:
    """(rejected candidates simulated, those on the front)."""
    from hwsim import Limits
    from mapper.mapping import Mapping
    from tuner.dominance import BY_BOUND
    from tuner.work import Worker

    objectives, worker = problem.spec.objectives, Worker(problem.space)
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
    seconds = time.perf_counter() - started
    print(f"bounds alone reject {share:.1%}; {tried} of them audited, {found} on the front; {seconds:.0f} s")
    if options.json:
        summary = {"legal": len(legal), "rules": dict(rules), "share": share, "audited": tried, "on_front": found}
        options.json.write_text(json.dumps({"summary": summary, "rows": []}, indent=2) + "\n")
    if found or share < LEAST_SHARE:
        raise SystemExit(f"at least {LEAST_SHARE:.0%} must be rejected and none of them be on the front")


if __name__ == "__main__":
    main()
