"""A profile in a notebook."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest
from golden_graphs import golden_graph
from unit_harness import unit_graph

from hwsim import Profile, TrafficRow, simulate
from hwsim.profile_html import MOST_ROWS
from mapper.graph import Graph


class Balance(HTMLParser):
    """Fails on a tag that is not closed in order; collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "|"


def shown(profile: Profile) -> tuple[str, str]:
    """HTML and its text."""
    html = profile._repr_html_()
    page = Balance()
    page.feed(html)
    assert not page.open and "<script" not in html and "http" not in html
    return html, page.text


def test_figures_and_bars() -> None:
    html, text = shown(simulate(golden_graph("ijk", "s50")[0]))
    assert "cycles|30,687|" in text and "tokens|109,472|" in text and "status|done|" in text
    assert text.index("join k") < text.index("scan CTk") < text.index("crd i")  # the busiest first
    bars = re.findall(r'white-space:nowrap">(.*?)</div>', html)
    for bar in bars:
        assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100, abs=0.05)
    assert "starved: 28186 cycles" in html  # the value writer


def test_deadlock_and_traffic() -> None:
    dead = simulate(golden_graph("ikj", "s20x30x25", 1)[0])
    _, text = shown(dead)
    assert "status|deadlock|" in text and "waits for a free slot" in text
    sizes = {"read_value_bytes": 4096, "read_metadata_bytes": 8, "write_value_bytes": 4, "write_metadata_bytes": 2}
    profile = simulate(unit_graph("convert", [], 0, tensors=("A & B",), params={"tensor": 0, **sizes}))
    html, text = shown(profile)
    assert "A &amp; B" in html and "read|4,096|8|" in text and "write|4|2|" in text


def test_names_are_escaped_and_rows_bounded() -> None:
    profile = simulate(unit_graph("map", ["1.0 D"], params={"op": "neg"}))
    unit = profile.contexts[1]
    many = tuple(dataclasses.replace(unit, name=f"<b>{n}") for n in range(MOST_ROWS + 7))
    rows = tuple(TrafficRow(f"T{n}", "read", 1, 0, 1) for n in range(MOST_ROWS + 2))
    html, text = shown(dataclasses.replace(profile, contexts=many, traffic=rows))
    assert "<b>" not in html and html.count("&lt;b&gt;") == MOST_ROWS
    assert "7 less busy contexts are not shown." in text and "2 more rows of traffic are not shown." in text


def test_empty_profile() -> None:
    _, text = shown(simulate(Graph((), ())))
    assert "cycles|0|" in text
