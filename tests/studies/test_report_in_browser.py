"""The report in a real browser: every figure is drawn, nothing fails, nothing is fetched."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sample_study import VERSIONS, contents

from studies.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@pytest.mark.skipif(BROWSER is None, reason="Chromium is needed to look at the report")
@pytest.mark.parametrize("objectives", [("latency_cycles",), ("latency_cycles", "traffic_bytes", "energy_pj")])
def test_every_figure_is_drawn(tmp_path: Path, objectives: tuple[str, ...]) -> None:
    file = tmp_path / "report.html"
    write_report(contents(objectives=objectives), file, VERSIONS)
    command = [str(BROWSER), *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    figures = re.split(r'<div id="figure-', done.stdout)[1:]
    assert len(figures) == 6, done.stderr[-2000:]
    for figure in figures:
        assert 'class="main-svg"' in figure, figure[:80]
    assert [line for line in done.stderr.splitlines() if ":CONSOLE" in line] == []
