"""The report: complete, offline, safe against hostile names, and small enough for large studies."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_study import VERSIONS, contents, mappings

from mapper.canonical import plain
from studies.figures import front_figure, model_figure, progress_figure, stall_figure, traffic_figure, units_of
from studies.frames import best, front, model_errors, simulated
from studies.records import StudyContents, TrialRecord
from studies.report import render_report, write_report
from studies.summary import words_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """Headings, addresses that a browser would fetch, and whether every element is closed."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.fetched: list[str] = []
        self.images = 0
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.images += tag == "img"
        self.fetched += [str(v) for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def page_of(study: StudyContents) -> tuple[str, Page]:
    text = render_report(study, VERSIONS)
    page = Page(text)
    assert page.open == []
    assert page.fetched == []
    return text, page


def numbers(values: Any) -> list[float]:
    """Data of a trace, which plotly may hold as base64 typed arrays."""
    if isinstance(values, dict):
        return list(np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]))
    return list(values)


def traces(figure: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(figure.to_json())["data"]
    return found


def test_a_whole_study() -> None:
    text, page = page_of(contents())
    assert page.headings == [
        "Study",
        "Best against default",
        "Pareto front",
        "Best so far",
        "The winning mapping",
        "Where the bytes go",
        "Where the cycles go",
        "Model against simulator",
        "Pruning funnel",
        "What stopped the others",
    ]
    assert len(re.findall(r'<div id="figure-', text)) == 6
    assert text.count("plotly.js v") == 1
    assert "tile-over-capacity" in text
    assert "a.mtx, 64 x 64, 410 stored" in text


def test_an_empty_study() -> None:
    study = dataclasses.replace(contents(0), baseline=None, datasets=())
    text, page = page_of(study)
    assert page.headings == ["Study", "Best against default"]
    assert "Nothing was simulated yet." in text


def test_a_study_of_rejections_alone() -> None:
    study = contents()
    rejected = tuple(t for t in study.trials if t.state == "rejected")
    _, page = page_of(dataclasses.replace(study, baseline=None, trials=rejected))
    assert page.headings == ["Study", "Best against default", "Pruning funnel", "What stopped the others"]


def test_what_breaks_a_constraint_is_hollow() -> None:
    study = contents()
    limit = sorted((t.values or {})["latency_cycles"] for t in simulated(study))[5]
    text, figure = {}, {}
    for least in (limit, 1):
        identity = {**study.handle.identity, "constraints": {"latency_cycles": least}}
        mine = dataclasses.replace(study, handle=dataclasses.replace(study.handle, identity=identity))
        text[least], _ = page_of(mine)
        figure[least] = {t["name"]: numbers(t["x"]) for t in traces(front_figure(mine, words_of(mine), VERSIONS))}
        steps = numbers(traces(progress_figure(mine, VERSIONS))[0]["y"])
        assert all(value <= least for value in steps)
    assert len(figure[limit]["over a constraint"]) == len(simulated(study)) - 6
    assert max(figure[limit]["simulated"] + figure[limit]["Pareto front"]) <= limit
    assert "There is no best mapping" not in text[limit]
    assert "no simulated mapping meets the constraints: latency_cycles &lt;= 1." in text[1]
    assert "The winning mapping" not in text[1]


def test_reasons_of_failures_are_told() -> None:
    failed = TrialRecord(0, 0, "failed", {}, {}, failure="S0: deadlock <at> 7")
    text, _ = page_of(dataclasses.replace(contents(0), trials=(failed,)))
    assert "all simulations failed, 1 of them by: S0: deadlock &lt;at&gt; 7." in text
    assert '<td>S0: deadlock &lt;at&gt; 7</td><td class="number">1</td>' in text


def test_a_baseline_that_failed() -> None:
    study = contents()
    failed = TrialRecord(-1, -1, "failed", {}, {}, failure="deadlock")
    text, _ = page_of(dataclasses.replace(study, baseline=failed))
    assert "Pareto front" in text


@pytest.mark.parametrize(
    "objectives", [("energy_pj",), ("traffic_bytes", "energy_pj"), ("latency_cycles", "traffic_bytes", "energy_pj")]
)
def test_any_number_of_objectives(objectives: tuple[str, ...]) -> None:
    study = contents(objectives=objectives)
    page_of(study)
    panels = max(1, len(objectives) * (len(objectives) - 1) // 2)
    drawn = traces(front_figure(study, words_of(study), VERSIONS))
    assert len(drawn) == 3 * panels
    assert len(traces(progress_figure(study, VERSIONS))) == len(objectives)


def test_hostile_names_stay_text() -> None:
    study = contents(1)
    stalls = dict.fromkeys(("busy", "starved", "blocked", "memory", "finished"), 2)
    step = {"name": HOSTILE, "cycles": 10, "contexts": [{"name": HOSTILE, "kind": "alu", **stalls}]}
    entry = {"tensor": HOSTILE, "purpose": "load", "direction": "read", "values_bytes": 1, "metadata_bytes": 1}
    trials = [
        dataclasses.replace(t, profile={"traffic": [entry], "steps": [step]}) if t.profile else t for t in study.trials
    ]
    handle = dataclasses.replace(study.handle, name=HOSTILE)
    datasets = tuple(dataclasses.replace(d, source=HOSTILE) for d in study.datasets)
    text, page = page_of(StudyContents(handle, datasets, study.baseline, tuple(trials)))
    assert HOSTILE not in text
    assert page.images == 0
    assert "&lt;/script&gt;" in text


def test_front_holds_every_simulated_trial() -> None:
    study = contents()
    others, optimal, base = traces(front_figure(study, words_of(study), VERSIONS))
    kept = front(study, VERSIONS)
    assert numbers(optimal["x"]) == [t.values["latency_cycles"] for t in kept if t.values]
    assert len(numbers(others["x"])) + len(kept) == len(simulated(study))
    assert numbers(base["y"]) == [5e6]
    assert all("loops" in text for text in optimal["text"])
    assert f"trial {kept[0].number}" in optimal["text"][0]


def test_progress_never_rises() -> None:
    study = contents()
    for trace, objective in zip(traces(progress_figure(study, VERSIONS)), study.objectives, strict=True):
        values = numbers(trace["y"])
        assert values == sorted(values, reverse=True)
        found = best(study, objective)
        assert found is not None
        assert values[-1] == (found.values or {})[objective]
        assert numbers(trace["x"])[-1] == len(simulated(study))


def test_model_panels_say_ratio_and_rank() -> None:
    study = contents()
    errors = model_errors(simulated(study))
    titles = [a["text"] for a in json.loads(model_figure(study, errors, VERSIONS).to_json())["layout"]["annotations"]]
    assert titles == [f"ratio {e.ratio:.2f}, rank correlation {e.rank_correlation:.3f}" for e in errors]


def test_traffic_bars_hold_all_bytes() -> None:
    study = contents()
    trial = best(study, "latency_cycles")
    assert trial is not None
    assert trial.profile is not None
    bars = traces(traffic_figure([("best", trial)]))
    for bar, part in zip(bars, ("values_bytes", "metadata_bytes"), strict=True):
        assert sum(numbers(bar["x"])) == sum(e[part] for e in trial.profile["traffic"])


def test_traffic_compares_flows_that_one_side_lacks() -> None:
    entry = {"purpose": "convert", "direction": "read", "values_bytes": 3, "metadata_bytes": 0}
    sides = [
        (name, TrialRecord(0, 0, "failed", {}, {}, profile={"traffic": [{**entry, "tensor": tensor}]}))
        for name, tensor in (("default", "A"), ("best", "B"))
    ]
    values, _ = traces(traffic_figure(sides))
    assert values["y"] == [["A convert read"] * 2 + ["B convert read"] * 2, ["default", "best"] * 2]
    assert numbers(values["x"]) == [3, 0, 0, 3]


def test_stall_shares_sum_to_one() -> None:
    study = contents()
    trial = best(study, "latency_cycles")
    assert trial is not None
    bars = traces(stall_figure(units_of((trial.profile or {})["steps"][0]["contexts"])))
    totals = np.sum([numbers(bar["x"]) for bar in bars], axis=0)
    assert totals == pytest.approx(100)
    assert numbers(bars[0]["x"]) == sorted(numbers(bars[0]["x"]), reverse=True)


def test_lanes_are_averaged() -> None:
    parts = {"starved": 0, "blocked": 0, "memory": 0, "finished": 0}
    contexts = [
        {"name": "mul S0@0.1", "kind": "alu", "busy": 2, **parts},
        {"name": "mul S0@1.1", "kind": "alu", "busy": 4, **parts},
        {"name": "store Z", "kind": "store", "busy": 9, **parts},
    ]
    assert [(u["name"], u["busy"]) for u in units_of(contexts)] == [("store Z", 9), ("mul S0.1 x2", 3)]


def test_large_studies_stay_fast_and_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pool = [(plain(m), m.key) for m in mappings(40)]
    study = contents(1)
    trials = [
        TrialRecord(
            n, n // 1000, "simulated", {}, {}, *pool[n % 40], estimate={"latency_cycles": x, "traffic_bytes": y},
            values={"latency_cycles": 1 + x, "traffic_bytes": 1 + y}, model_version="m1", simulator_version="s1",
        )
        for n, (x, y) in enumerate((rng.random((50_000, 2)) * 1e6).tolist())
    ]  # fmt: skip
    started = time.process_time()
    write_report(dataclasses.replace(study, trials=tuple(trials)), tmp_path / "r.html", VERSIONS)
    assert time.process_time() - started < 10
    assert (tmp_path / "r.html").stat().st_size < 10e6
