"""The report: one HTML page with everything in it, to be read without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import StudyError
from mapper.mapping import Mapping
from studies.drawing import draw_mapping
from studies.figures import (
    MOST_UNITS,
    front_figure,
    funnel_figure,
    model_figure,
    progress_figure,
    stall_figure,
    traffic_figure,
    units_of,
)
from studies.frames import MEASURES, Versions, best, current_versions, model_errors, program_of, simulated
from studies.records import StudyContents, TrialRecord
from studies.summary import summarize, winner_reasons, winner_words, words_of
from studies.units import shown

if TYPE_CHECKING:
    import plotly.graph_objects as go

TEMPLATE = "report.html.j2"
BUTTONS = ["toImage", "zoom2d", "pan2d", "resetScale2d"]


def write_report(contents: StudyContents, file: Path, versions: Versions | None = None) -> None:
    """Writes the report of a study to ``file``. ``versions`` default to the installed model and simulator; rows of
    others are left out. Raises StudyError when the file cannot be written."""
    page = render_report(contents, versions or current_versions())
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StudyError(f"the report cannot be written to {file}: {error.strerror}") from error


def render_report(contents: StudyContents, versions: Versions | None = None) -> str:
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["shown_as"] = lambda value, measure: shown(measure, value)
    page = environment.get_template(TEMPLATE)
    return page.render(**_content(contents, versions), plotlyjs=get_plotlyjs(), measures=MEASURES)


def _content(contents: StudyContents, versions: Versions | None) -> dict[str, Any]:
    summary = summarize(contents, versions)
    trials = simulated(contents, versions)
    winner = best(contents, contents.objectives[0], versions)
    errors = model_errors(trials)
    compared = [(n, t) for n, t in (("default", contents.baseline), ("best", winner)) if t and t.profile]
    moved = any((t.profile or {}).get("traffic") for _, t in compared)
    step = _longest_step(winner)
    units = units_of(step["contexts"]) if step else []
    figures = {
        "front": front_figure(contents, words_of(contents), versions) if trials else None,
        "progress": progress_figure(contents, versions) if trials else None,
        "model": model_figure(contents, errors, versions) if errors else None,
        "funnel": funnel_figure(summary.funnel) if contents.trials else None,
        "traffic": traffic_figure(compared) if moved else None,
        "stalls": stall_figure(units) if units else None,
    }
    return {
        "facts": summary.facts,
        "funnel": dict(summary.funnel),
        "winners": summary.winners.astype(object).where(summary.winners.notna(), None).to_dict("records"),
        "verdicts": summary.verdicts.to_dict("records"),
        "failures": summary.failures.to_dict("records"),
        "no_winner": summary.no_winner,
        "objective": contents.objectives[0],
        "words": winner_words(contents, versions),
        "reasons": winner_reasons(contents, versions),
        "drawing": _drawing(contents, winner),
        "winner": winner,
        "step": step,
        "hidden_units": max(0, len(units) - MOST_UNITS),
        "figures": {name: _embedded(name, figure) for name, figure in figures.items() if figure is not None},
    }


def _drawing(contents: StudyContents, winner: TrialRecord | None) -> str:
    if winner is None or not winner.mapping:
        return ""
    cycles = {step["name"]: step["cycles"] for step in (winner.profile or {}).get("steps", [])}
    return draw_mapping(program_of(contents), Mapping.from_json(winner.mapping), cycles)


def _longest_step(trial: TrialRecord | None) -> dict[str, Any] | None:
    steps = (trial.profile or {}).get("steps", []) if trial else []
    return max(steps, key=lambda s: s["cycles"], default=None)


def _embedded(name: str, figure: go.Figure) -> str:
    text: str = figure.to_html(
        include_plotlyjs=False,
        full_html=False,
        div_id=f"figure-{name}",
        config={"displaylogo": False, "responsive": True, "modeBarButtons": [BUTTONS]},
    )
    return text
