"""Laws of off-chip memory, measured on every bundled machine that has one, beside their formulas.

* streaming: one reader of contiguous tiles; the configured bandwidth, channels * bytes per cycle.
* prefetch N: the same with at most N tiles of one burst ahead; min(bandwidth, N * burst / (transfer + latency + 1)).
* share: the first of two equal readers, run together; half the configured bandwidth.
* in flight N: one reader of contiguous tiles with at most N bursts in flight; min(bandwidth, N * burst / (transfer +
  latency)).
* rows: contiguous tiles, of four bursts to a row, with and without the row open in three of them; and two readers that
  close each other's rows all the time: burst / (transfer + cycles for its row) per channel.
* elements: an array read in place at random and in order; runs of equal burst numbers * burst bytes.
* banks: 4 banks that give a value in 3 cycles, read at stride 1 and 2; the cycles of the bank with most of them.
* gather: tiles of one word at random places; bytes asked for / bytes of the bursts touched; and, a lower bound, the
  cycles of the busiest channel's bursts (or of one request per cycle, where that is more) + latency.

    python benchmarks/memory_laws.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "hwsim")]

PREFETCH = (1, 4, 16)
IN_FLIGHT = (4, 16)
TOLERANCE = 0.01


Row = dict[str, Any]


def control_rows(name: str, rounds: int) -> Iterator[Row]:
    """Laws of what a machine's memory may be given besides channels, bandwidth and latency."""
    from memory_streams import (  # type: ignore[import-not-found]  # in tests/hwsim
        Reader,
        bank_cycles,
        outstanding_bandwidth,
        read,
        read_elements,
        row_bandwidth,
        stream,
    )

    from mapper.graph_builder import dram_of
    from mapper.machine import load_machine

    machine = load_machine(name)
    dram = dram_of(machine)
    assert dram is not None
    burst, channels = dram.burst_bytes, dram.channels
    for bursts in IN_FLIGHT:
        limited = dataclasses.replace(dram, outstanding=bursts)
        run = read(limited, stream(rounds * bursts, burst))
        reached = run.profile.burst_bytes / (run.times[0][-1] - 1)
        yield _row(name, f"in_flight_{bursts}_bytes_per_cycle", reached, outstanding_bandwidth(limited))
    rows = dataclasses.replace(dram, row_bytes=4 * burst, row_hit_cycles=1, row_miss_cycles=20)
    run = read(rows, stream(rounds, 16 * burst * channels))
    reached = run.profile.burst_bytes / run.profile.cycles
    yield _row(name, "row_hits_bytes_per_cycle", reached, row_bandwidth(rows, 3 / 4))
    far = 4 * burst * channels * rounds
    pair = read(rows, *(Reader([n * far + t * burst * channels for t in range(4 * rounds)], [burst] * 4 * rounds)
                        for n in range(2)))  # fmt: skip
    formula = row_bandwidth(dataclasses.replace(rows, channels=1), 0.0)
    yield _row(name, "row_misses_bytes_per_cycle", pair.profile.burst_bytes / pair.profile.cycles, formula)
    word = machine.value_bytes
    for order, refs in (
        ("random", np.random.default_rng(0).integers(0, 2**16, 20 * rounds)),
        ("in_order", np.arange(20 * rounds)),
    ):
        runs = 1 + int(np.count_nonzero(np.diff(refs * word // burst)))
        run = read_elements(dram, refs.tolist(), {"tensor": 0, "address": 0, "value_bits": 8 * word})
        yield _row(name, f"elements_{order}_burst_bytes", run.profile.burst_bytes, runs * burst)
    for stride in (1, 2):
        places = list(range(0, 20 * rounds * stride, stride))
        params = {"banks": 4, "value_bytes": 3, "bank_bytes_per_cycle": 1.0}
        cycles = read_elements(None, places, params).profile.cycles
        yield _row(name, f"banks_stride_{stride}_cycles", cycles, bank_cycles(places, 4, 3))


def _row(name: str, law: str, measured: float, formula: float) -> Row:
    return {"machine": name, "law": law, "measured": measured, "formula": formula, "ratio": measured / formula}


def rows_of(name: str, rounds: int) -> Iterator[Row]:
    """One row per law; ``rounds`` is the length of a run in latencies."""
    from memory_streams import (  # type: ignore[import-not-found]  # in tests/hwsim
        START_CYCLES,
        Reader,
        bursts_touched,
        cycles_per_burst,
        prefetch_bandwidth,
        read,
        stream,
    )

    from mapper.graph_builder import dram_of
    from mapper.machine import load_machine

    machine = load_machine(name)
    dram = dram_of(machine)
    assert dram is not None
    peak, burst = machine.bytes_per_cycle, dram.burst_bytes

    def row(law: str, measured: float, formula: float) -> Row:
        return _row(name, law, measured, formula)

    tile = 16 * burst * dram.channels
    tiles = int(peak * rounds * (dram.latency_cycles + START_CYCLES)) // tile + 1
    yield row("streaming_bytes_per_cycle", tiles * tile / read(dram, stream(tiles, tile)).profile.cycles, peak)
    for prefetch in PREFETCH:
        (times,) = read(dram, stream(prefetch * rounds, burst, 0, prefetch)).times
        skip = 4 * prefetch
        last = times.size - 1 - (times.size - 1 - skip) % prefetch
        measured = (last - skip) * burst / (times[last] - times[skip])
        yield row(f"prefetch_{prefetch}_bytes_per_cycle", measured, prefetch_bandwidth(dram, burst, prefetch))
    pair = read(dram, stream(tiles, tile, 0, 32), stream(tiles, tile, tiles * tile, 32))
    yield row("share_bytes_per_cycle", tiles * tile / int(pair.times[0][-1]), peak / 2)
    word, rng = machine.value_bytes, np.random.default_rng(0)
    gather = Reader((rng.integers(0, 2**22, 20 * rounds) * word).tolist(), [word] * 20 * rounds)
    run, touched = read(dram, gather).profile, bursts_touched(dram, gather)
    yield row("gather_useful_share", run.traffic_bytes / run.burst_bytes, 20 * rounds * word / (touched.sum() * burst))
    busiest = max(int(touched.max()) * cycles_per_burst(dram), 20 * rounds) + dram.latency_cycles
    yield row("gather_cycles", run.cycles, busiest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()

    from mapper.machine import load_machine, preset_names

    names = [name for name in preset_names() if load_machine(name).dram_channels is not None]
    rounds = 150 if options.quick else 500
    rows = [row for name in names for laws in (rows_of, control_rows) for row in laws(name, rounds)]
    print(f"{'machine':<18}{'law':<30}{'measured':>12}{'formula':>12}{'ratio':>8}")
    for row in rows:
        print(
            f"{row['machine']:<18}{row['law']:<30}{row['measured']:>12.4f}{row['formula']:>12.4f}{row['ratio']:>8.4f}"
        )
    worst = max(abs(row["ratio"] - 1) for row in rows if row["law"] != "gather_cycles")
    summary = {"rows": len(rows), "worst_relative_difference": worst, "tolerance": TOLERANCE}
    print(f"largest difference between measured and formula, cycles of gathers apart: {worst:.2%}")
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2) + "\n")
    if worst > TOLERANCE:
        raise SystemExit(f"a law is missed by {worst:.2%}, must be within {TOLERANCE:.0%}")


if __name__ == "__main__":
    main()
