"""Known fields of a machine come back from cycles that were simulated with them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from hwsim import Limits
from mapper.canonical import canonical_json, plain
from mapper.errors import IllegalMapping, InputError
from mapper.machine import Machine, load_machine
from mapper.mapping import Loops, Mapping
from mapper.notation import parse_program
from mapper.synthetic import uniform
from mapper.workload import Workload
from tuner.calibration import Calibration, Fit, calibrate, compare
from tuner.evaluate import evaluate
from tuner.measurement import Measurement, read_measurements

RDA = load_machine("rda")
TILES = (("i", 8), ("j", 8), ("k", 8))
NESTS = [
    Loops(("i", "k", "j"), TILES),
    Loops(("i", "j", "k"), TILES),
    Loops(("k", "i", "j"), TILES),
    Loops(("i", "k", "j")),
]


@pytest.fixture(scope="module")
def workload() -> Workload:
    tensors = {"A": uniform((24, 30), 0.15, 1), "B": uniform((30, 20), 0.15, 2)}
    return Workload(parse_program("Z(i,j) = A(i,k) * B(k,j)"), tensors)


def mapping(loops: Loops, machine: tuple[tuple[str, int | float | None], ...] = ()) -> Mapping:
    formats = tuple((t, ("dense", "compressed")) for t in "ABZ")
    return Mapping((), (loops,), formats, "none", machine)


def cycles(workload: Workload, chosen: Mapping, machine: Machine) -> int:
    result = evaluate(workload, chosen, machine.with_fields(**dict(chosen.machine)), Limits())
    assert result.failure is None
    return result.latency_cycles


def measured(workload: Workload, machine: Machine, noise: float = 0.0) -> list[Measurement]:
    rng = random.Random(0)
    chosen = [mapping(loops) for loops in NESTS]
    return [Measurement(workload, m, round(cycles(workload, m, machine) * (1 + rng.gauss(0, noise)))) for m in chosen]


def test_known_fields_come_back(workload: Workload) -> None:
    truth = {"dram_latency_cycles": 163, "drain_cycles_per_entry": 3}
    measurements = measured(workload, RDA.with_fields(**truth))
    found = calibrate(RDA, measurements, {"dram_latency_cycles": (20, 400), "drain_cycles_per_entry": (0, 8)})
    assert found.fitted == truth
    assert found.machine == RDA.with_fields(**truth)
    assert found.before is not None and found.before.worst_error > 0.1
    assert found.before.simulated == tuple(m.cycles for m in measured(workload, RDA))
    assert (found.after.mean_error, found.after.worst_error, found.after.loss) == (0, 0, 0)
    assert found.undetermined == ()
    assert found.candidates <= 400 + 5


def test_fields_of_memory_and_buffers_come_back(workload: Workload) -> None:
    # The machine begins without a limit of bursts in flight: None lies outside any bounds, but may be fitted from.
    truth = {"dram_startup_cycles": 340, "dram_outstanding": 3}
    free = {"dram_startup_cycles": (0, 1000), "dram_outstanding": (1, 9)}
    found = calibrate(RDA, measured(workload, RDA.with_fields(**truth)), free)
    assert found.fitted == truth and found.after.loss == 0
    # Rows of other than whole bursts are no machines; candidates that have them count as failures.
    truth = {"dram_row_bytes": 256}
    start = RDA.with_fields(dram_row_bytes=64, dram_row_miss_cycles=40)
    found = calibrate(
        start, measured(workload, start.with_fields(**truth)), {"dram_row_bytes": (64, 512)}, candidates=60
    )
    assert found.machine.dram_row_bytes is not None and found.machine.dram_row_bytes % 64 == 0
    assert found.before is not None and found.after.loss <= found.before.loss


def test_the_fitted_machine_predicts_a_mapping_that_was_not_measured(workload: Workload) -> None:
    truth = RDA.with_fields(dram_latency_cycles=163, drain_cycles_per_entry=3)
    *seen, unseen = measured(workload, truth)
    free = {"dram_latency_cycles": (20, 400), "drain_cycles_per_entry": (0, 8)}
    fitted = calibrate(RDA, seen, free).machine
    before, after = compare(RDA, [unseen]), compare(fitted, [unseen])
    assert before is not None and after is not None
    assert before.worst_error > 0.1 and after.worst_error == 0
    assert compare(RDA, [unseen], Limits(max_cycles=10)) is None


def test_a_calibration_is_plain_data(workload: Workload) -> None:
    found = calibrate(RDA, measured(workload, RDA), {"dram_latency_cycles": (20, 400)})
    assert found.candidates <= 20  # the start fits already, so the search ends with its first generation
    data = json.loads(canonical_json(found))
    assert data["fitted"] == {"dram_latency_cycles": 100}
    assert data["before"] == data["after"]


def test_a_real_field_comes_back(workload: Workload) -> None:
    slow = RDA.with_fields(dram_channels=1, dram_latency_cycles=10)
    measurements = measured(workload, slow.with_fields(dram_bytes_per_cycle=1.6))  # a burst in 40 cycles
    found = calibrate(slow, measurements, {"dram_bytes_per_cycle": (0.5, 16.0)}, candidates=150)
    assert math.ceil(64 / found.fitted["dram_bytes_per_cycle"]) == 40
    assert found.after.worst_error == 0


def test_noise_leaves_an_error_no_larger_than_itself(workload: Workload) -> None:
    truth = RDA.with_fields(dram_latency_cycles=200)
    noisy = measured(workload, truth, 0.02)
    found = calibrate(RDA, noisy, {"dram_latency_cycles": (20, 400)}, candidates=120)
    at_truth = Fit(tuple(m.cycles for m in noisy), tuple(m.cycles for m in measured(workload, truth)))
    assert 0 < found.after.loss <= at_truth.loss
    assert abs(found.fitted["dram_latency_cycles"] - 200) < 20
    assert found.before is not None and found.after.mean_error < found.before.mean_error / 4


def test_fields_without_effect_are_named(workload: Workload) -> None:
    free = {"dram_latency_cycles": (20, 400), "clock_ghz": (0.5, 2.0)}
    found = calibrate(RDA, measured(workload, RDA.with_fields(dram_latency_cycles=60)), free)
    assert found.undetermined == ("clock_ghz",)
    assert found.fitted["dram_latency_cycles"] == 60


def test_same_seed_same_result(workload: Workload) -> None:
    def run(seed: int) -> Calibration:
        noisy = measured(workload, RDA.with_fields(dram_latency_cycles=77), 0.05)
        free = {"dram_latency_cycles": (20, 400), "fifo_depth": (2, 128)}
        return calibrate(RDA, noisy, free, seed=seed, candidates=60)

    assert run(3) == run(3)


def test_knobs_of_mappings_are_kept(workload: Workload) -> None:
    chosen = [mapping(loops, (("drain_cycles_per_entry", 5),)) for loops in NESTS]
    truth = RDA.with_fields(dram_latency_cycles=130)
    measurements = [Measurement(workload, m, cycles(workload, m, truth)) for m in chosen]
    assert calibrate(RDA, measurements, {"dram_latency_cycles": (20, 400)}).fitted == {"dram_latency_cycles": 130}
    with pytest.raises(InputError, match=r"measurement 0: its mapping fixes \['drain_cycles_per_entry'\]"):
        calibrate(RDA, measurements, {"drain_cycles_per_entry": (1, 9)})


def test_a_starting_machine_that_does_not_finish_has_no_error(workload: Workload) -> None:
    measurements = measured(workload, RDA)
    limits = Limits(max_cycles=3 * max(m.cycles for m in measurements))
    slow = RDA.with_fields(dram_latency_cycles=4000)
    found = calibrate(slow, measurements, {"dram_latency_cycles": (1, 4000)}, limits=limits)
    assert found.before is None
    assert found.fitted == {"dram_latency_cycles": 100}
    with pytest.raises(InputError, match=r"none of \d+ candidates did: .*limit:cycles; widen the bounds"):
        calibrate(slow, measurements, {"dram_latency_cycles": (3000, 4000)}, candidates=30, limits=limits)


def test_wrong_input(workload: Workload) -> None:
    good = measured(workload, RDA)
    with pytest.raises(InputError, match="Did you mean 'dram_latency_cycles'"):
        calibrate(RDA, good, {"dram_latency": (1, 2)})
    with pytest.raises(InputError, match=r"low < high, got \(9, 3\)"):
        calibrate(RDA, good, {"fifo_depth": (9, 3)})
    with pytest.raises(InputError, match=r"must be an integer, got 1\.5"):
        calibrate(RDA, good, {"fifo_depth": (1.5, 3)})
    with pytest.raises(InputError, match="must be finite numbers, got"):
        calibrate(RDA, good, {"clock_ghz": (0.5, math.inf)})
    with pytest.raises(InputError, match="must be finite numbers, got"):
        calibrate(RDA, good, {"fifo_depth": (2, None)})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="2 free fields need as many measurements"):
        calibrate(RDA, good[:1], {"fifo_depth": (1, 3), "dram_channels": (1, 8)})
    with pytest.raises(InputError, match="at least one free field"):
        calibrate(RDA, good, {})
    with pytest.raises(InputError, match="measurement 1: cycles must be at least 1, got 0"):
        calibrate(RDA, [good[0], Measurement(workload, good[1].mapping, 0)], {"fifo_depth": (1, 3)})


def test_illegal_mappings_are_refused(workload: Workload) -> None:
    lanes = mapping(Loops(("i", "k", "j"), (), (("i", 24, "block"),)))
    with pytest.raises(IllegalMapping, match=r"measurement 0: its mapping must be legal on rda, but .*units"):
        calibrate(RDA, [Measurement(workload, lanes, 100)], {"dram_latency_cycles": (1, 9)})


def test_measurements_from_a_file(workload: Workload, tmp_path: Path) -> None:
    file = tmp_path / "chip.json"
    written = measured(workload, RDA)
    file.write_text(json.dumps([{"mapping": plain(m.mapping), "cycles": m.cycles} for m in written]))
    assert read_measurements(file, workload) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "must be a readable JSON file"),
        ("{}", "must hold a list of measurements, got dict"),
        ("[3]", "measurement 0 must be an object with 'mapping' and 'cycles', got int"),
        ('[{"mapping": {}}]', r"measurement 0 must be an object .* got \['mapping'\]"),
        ('[{"mapping": {}, "cycles": 1.5}]', "'cycles' must be an integer, got 1.5"),
        ('[{"mapping": {}, "cycles": 15}]', "'mapping' must be as studies store it, but reading it gave KeyError"),
        ('[{"mapping": 7, "cycles": 15}]', "'mapping' must be as studies store it, but reading it gave TypeError"),
    ],
)
def test_wrong_files(workload: Workload, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "chip.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_measurements(tmp_path / "chip.json", workload)


def test_a_missing_file(workload: Workload, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a readable JSON file"):
        read_measurements(tmp_path / "none.json", workload)


def test_errors_by_hand() -> None:
    fit = Fit((100, 200), (110, 100))
    assert fit.errors == pytest.approx((0.1, -0.5))
    assert (fit.mean_error, fit.worst_error) == pytest.approx((0.3, 0.5))
    assert fit.loss == pytest.approx((math.log(1.1) ** 2 + math.log(2) ** 2) / 2)
