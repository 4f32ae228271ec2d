"""The figures of a report, one function each. Plain plotly figures; every text that a user supplied is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.frames import MEASURES, ModelError, Versions, eligible, front, model_pairs, simulated
from studies.records import StudyContents, TrialRecord
from studies.units import LABELS, shown

if TYPE_CHECKING:
    import plotly.graph_objects as go

ACCENT, INK, MUTED, FAINT = "#0b6bcb", "#1b2733", "#9aa7b4", "#e3e8ed"
FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WEBGL_FROM = 3000
"""Points above which a scatter is drawn by WebGL."""
MOST_WORDS = 1000
"""Points off the front that say their mapping in words when hovered over."""
MOST_UNITS = 18

STALLS = {"busy": ACCENT, "memory": "#44566a", "starved": "#b9c4cf", "blocked": "#7f90a1", "finished": "#edf1f4"}

Words = Callable[[TrialRecord], str]


def front_figure(contents: StudyContents, words: Words, versions: Versions | None = None) -> go.Figure:
    """Every simulated mapping and the Pareto front: one panel per pair of objectives, or objective over trial. What
    breaks the constraints is hollow."""
    from plotly.subplots import make_subplots

    objectives = contents.objectives
    pairs = [(a, b) for n, a in enumerate(objectives) for b in objectives[n + 1 :]] or [("number", objectives[0])]
    figure = make_subplots(1, len(pairs), horizontal_spacing=0.09)
    optimal = front(contents, versions)
    kept = {t.number for t in optimal}
    others = [t for t in eligible(contents, versions) if t.number not in kept]
    over = [t for t in simulated(contents, versions) if t.over(contents.budgets)]
    base = [contents.baseline] if contents.baseline and contents.baseline.values else []
    hollow = {"color": MUTED, "size": 7, "symbol": "circle-open"}
    for panel, pair in enumerate(pairs, 1):
        line = len(pairs) == 1 and pair[0] != "number"
        layers = (
            ("simulated", others, {"color": MUTED, "size": 7, "opacity": 0.65}, "markers"),
            *([("over a constraint", over, hollow, "markers")] if over else []),
            ("Pareto front", optimal, {"color": ACCENT, "size": 10}, "lines+markers" if line else "markers"),
            ("default", base, {"color": INK, "size": 12, "symbol": "diamond"}, "markers"),
        )
        for name, trials, marker, mode in layers:
            said = trials if name in ("Pareto front", "default") or len(trials) <= MOST_WORDS else []
            figure.add_trace(
                _scatter(
                    x=[_coordinate(t, pair[0]) for t in trials],
                    y=[_coordinate(t, pair[1]) for t in trials],
                    mode=mode,
                    name=name,
                    marker=marker,
                    line={"color": ACCENT, "width": 1.5, "shape": "hv"},
                    text=[_hover(t, words) for t in said] or None,
                    hovertemplate="%{text}<extra></extra>" if said else None,
                    legendgroup=name,
                    showlegend=panel == 1,
                ),
                row=1,
                col=panel,
            )
        shown_trials = [*others, *over, *optimal, *base]
        for update, axis in ((figure.update_xaxes, pair[0]), (figure.update_yaxes, pair[1])):
            scale = _scale([_coordinate(t, axis) for t in shown_trials] if axis != "number" else [])
            update(title_text=LABELS.get(axis, "trial"), row=1, col=panel, **scale)
    return _styled(figure, 460)


def progress_figure(contents: StudyContents, versions: Versions | None = None) -> go.Figure:
    """Best value so far over simulations, one panel per objective; the dashed line is the default mapping. It begins
    with the first that meets the constraints."""
    from plotly.subplots import make_subplots

    objectives = contents.objectives
    figure = make_subplots(1, len(objectives), horizontal_spacing=0.09)
    base = (contents.baseline.values if contents.baseline else None) or {}
    for panel, objective in enumerate(objectives, 1):
        trials = simulated(contents, versions)
        values = {n: (t.values or {})[objective] for n, t in enumerate(trials, 1) if not t.over(contents.budgets)}
        steps: list[tuple[int, float]] = []
        for count, value in values.items():
            if not steps or value < steps[-1][1]:
                steps.append((count, value))
        if steps:
            steps.append((len(trials), steps[-1][1]))
        figure.add_trace(
            _scatter(
                x=[n for n, _ in steps],
                y=[v for _, v in steps],
                mode="lines",
                line={"color": ACCENT, "width": 2.5, "shape": "hv"},
                hovertemplate=f"%{{y:,.0f}} after %{{x}} simulations<extra>{objective}</extra>",
                showlegend=False,
            ),
            row=1,
            col=panel,
        )
        if objective in base:
            figure.add_hline(y=base[objective], line={"color": INK, "dash": "dash", "width": 1}, row=1, col=panel)
        levels = [*values.values(), *([base[objective]] if objective in base else [])]
        figure.update_xaxes(title_text="simulations", row=1, col=panel)
        figure.update_yaxes(title_text=f"best {LABELS[objective]}", row=1, col=panel, **_scale(levels))
    return _styled(figure, 340)


def model_figure(contents: StudyContents, errors: Sequence[ModelError], versions: Versions | None = None) -> go.Figure:
    """Estimate over measurement, one panel per measure, with the geometric mean of their ratio and rank correlation."""
    from plotly.subplots import make_subplots

    titles = []
    for error in errors:
        rank = "undefined" if error.rank_correlation is None else f"{error.rank_correlation:.3f}"
        titles.append(f"ratio {error.ratio:.2f}, rank correlation {rank}")
    figure = make_subplots(1, max(1, len(errors)), horizontal_spacing=0.09, subplot_titles=titles or None)
    figure.update_annotations(font={"size": 13, "color": INK})
    trials = simulated(contents, versions)
    for panel, error in enumerate(errors, 1):
        pairs = model_pairs(trials, error.measure)
        ends = [min(map(min, pairs)) * 0.8, max(map(max, pairs)) * 1.25]
        figure.add_trace(_scatter(x=ends, y=ends, mode="lines", line={"color": INK, "width": 1, "dash": "dot"},
                                  hoverinfo="skip", showlegend=False), row=1, col=panel)  # fmt: skip
        figure.add_trace(
            _scatter(
                x=[m for _, m in pairs],
                y=[e for e, _ in pairs],
                mode="markers",
                marker={"color": ACCENT, "size": 7, "opacity": 0.6},
                hovertemplate="simulator %{x:,.0f}<br>model %{y:,.0f}<extra></extra>",
                showlegend=False,
            ),
            row=1,
            col=panel,
        )
        label = LABELS[error.measure]
        figure.update_xaxes(title_text=f"simulated {label}", row=1, col=panel, **_scale(ends, logarithmic=True))
        figure.update_yaxes(title_text=f"model {label}", row=1, col=panel, **_scale(ends, logarithmic=True))
    return _styled(figure, 380)


def funnel_figure(stages: Sequence[tuple[str, int]]) -> go.Figure:
    """Trials left after each stage."""
    import plotly.graph_objects as go

    names, counts = [name for name, _ in stages], [count for _, count in stages]
    figure = go.Figure(
        go.Bar(
            x=counts,
            y=names,
            orientation="h",
            text=[f"{count:,}" for count in counts],
            textposition="outside",
            cliponaxis=False,
            marker={"color": [MUTED] * (len(names) - 1) + [ACCENT]},
            hovertemplate="%{y}: %{x:,}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(visible=False)
    return _styled(figure, 300)


def traffic_figure(rows: Sequence[tuple[str, TrialRecord]]) -> go.Figure:
    """Bytes moved per tensor and purpose, values and metadata apart, for each of the labelled trials."""
    import plotly.graph_objects as go

    labels: dict[tuple[str, str], dict[str, float]] = {}
    flows = [(name, _flow(entry), entry) for name, trial in rows for entry in (trial.profile or {}).get("traffic", [])]
    for flow in dict.fromkeys(flow for _, flow, _ in flows):
        for name, _ in rows:
            labels[html.escape(flow), name] = {"values_bytes": 0.0, "metadata_bytes": 0.0}
    for name, flow, entry in flows:
        for part in ("values_bytes", "metadata_bytes"):
            labels[html.escape(flow), name][part] += entry[part]
    figure = go.Figure()
    for part, color in (("values_bytes", ACCENT), ("metadata_bytes", MUTED)):
        figure.add_trace(
            go.Bar(
                y=[[flow for flow, _ in labels], [name for _, name in labels]],
                x=[bytes_[part] for bytes_ in labels.values()],
                orientation="h",
                name=part.removesuffix("_bytes"),
                marker={"color": color},
                customdata=[shown("traffic_bytes", bytes_[part]) for bytes_ in labels.values()],
                hovertemplate="%{customdata}<extra>%{fullData.name}</extra>",
            )
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="bytes")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return _styled(figure, 120 + 34 * len(labels))


def stall_figure(units: Sequence[dict[str, Any]]) -> go.Figure:
    """What the ``units`` of a step did with their cycles; the busiest ones, most busy first."""
    import plotly.graph_objects as go

    drawn = units[:MOST_UNITS]
    figure = go.Figure()
    for part, color in STALLS.items():
        figure.add_trace(
            go.Bar(
                y=[html.escape(unit["name"]) for unit in drawn],
                x=[100 * unit[part] / max(1, sum(unit[p] for p in STALLS)) for unit in drawn],
                orientation="h",
                name=part,
                marker={"color": color},
                customdata=[unit[part] for unit in drawn],
                hovertemplate="%{y}: %{customdata:,.0f} cycles, %{x:.1f} %<extra>%{fullData.name}</extra>",
            )
        )
    figure.update_layout(barmode="stack", bargap=0.3)
    figure.update_xaxes(title_text="share of the step's cycles", range=[0, 100], ticksuffix=" %")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return _styled(figure, 130 + 24 * len(drawn))


def units_of(contexts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Contexts with their copies in other lanes (``@3`` in the name) as one, cycles averaged; most busy first."""
    lanes: dict[str, list[dict[str, Any]]] = {}
    for context in contexts:
        lanes.setdefault(re.sub(r"@\d+", "", context["name"]), []).append(context)
    units = [
        {"name": name + (f" x{len(copies)}" if len(copies) > 1 else "")}
        | {part: sum(c[part] for c in copies) / len(copies) for part in STALLS}
        for name, copies in lanes.items()
    ]
    return sorted(units, key=lambda unit: (-unit["busy"], unit["name"]))


def _flow(entry: dict[str, Any]) -> str:
    purpose = entry.get("purpose") or entry["direction"]
    both_ways = purpose not in ("load", "store", entry["direction"])
    return f"{entry['tensor']} {purpose}" + (f" {entry['direction']}" if both_ways else "")


def _scatter(x: Sequence[float], y: Sequence[float], **options: Any) -> Any:
    """A scatter trace; arrays are embedded in binary, which keeps large studies small."""
    import plotly.graph_objects as go

    kind = go.Scattergl if len(x) > WEBGL_FROM else go.Scatter
    return kind(x=np.asarray(x, np.float64), y=np.asarray(y, np.float64), **options)


def _coordinate(trial: TrialRecord, axis: str) -> float:
    return trial.number if axis == "number" else (trial.values or {})[axis]


def _scale(values: Sequence[float], *, logarithmic: bool = False) -> dict[str, Any]:
    """A logarithmic axis where positive values span more than a factor of five (or as told), labelled 1, 2, 5."""
    low, high = min(values, default=0), max(values, default=0)
    if low <= 0 or not (logarithmic or high > 5 * low):
        return {"type": "linear"}
    return {"type": "log", "tickformat": "~s", "dtick": "D2" if high < 100 * low else 1}


def _hover(trial: TrialRecord, words: Words) -> str:
    name = "default mapping" if trial.number < 0 else f"trial {trial.number}"
    measures = ", ".join(shown(m, v) for m in MEASURES if (v := (trial.values or {}).get(m)) is not None)
    lines = html.escape(words(trial)).replace("  ", "&nbsp;&nbsp;").split("\n")
    return "<br>".join([f"<b>{name}</b>", measures, *lines])


def _styled(figure: go.Figure, height: int) -> go.Figure:
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 10, "r": 20, "t": 36, "b": 10},
        font={"family": FONT, "size": 13, "color": INK},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": MUTED, "activecolor": ACCENT},
        hoverlabel={"align": "left", "bgcolor": "white", "bordercolor": MUTED, "font": {"family": FONT, "size": 12}},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(gridcolor=FAINT, zeroline=False, automargin=True, exponentformat="SI", minexponent=3, title_font_size=13)
    return figure
