"""`benchmarks.attention`: what it counts as reached, that it outlives failures, and that it goes on where it stopped."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def command():
    return module("attention")


@pytest.fixture(scope="module")
def cases():
    return module("attention_cases")


@pytest.fixture(scope="module")
def measure():
    return module("attention_measure")


@pytest.fixture(scope="module")
def peers():
    return module("attention_peers")


@pytest.fixture(scope="module")
def speed():
    return module("attention_speed")


def module(name):
    sys.path.append(str(ROOT))  # behind everything: `shapecheck` stays the installed one
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


@pytest.mark.slow
def test_the_command(tmp_path):
    written = tmp_path / "numbers.json"
    words = [sys.executable, "-m", "benchmarks.attention", "--quick", "--only", "recompiles", "--json", str(written)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}
    for again in ([], ["--resume"]):
        run = subprocess.run(
            [*words, *again], check=False, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert "2 of 2 targets reached" in run.stdout
    assert [one["verdict"] for one in json.loads(written.read_text())["findings"]] == ["reached", "reached"]


def test_targets(measure):
    def finding(value, bar, least):
        return measure.Finding("s", "c", "w", value, bar, least)

    assert finding(10, 9, True).verdict == "reached, 1.11x"
    assert finding(8, 9, True).verdict == "MISSED, 0.89x"
    assert finding(0.05, 0.1, False).verdict == "reached, 2.00x"
    assert finding(0.2, 0.1, False).verdict == "MISSED, 0.50x"
    assert finding(0, 0, False).verdict == "reached"
    assert finding(1, 0, False).verdict == "MISSED"
    assert not finding(None, 9, True).judged
    assert not finding(3, None, True).judged
    failed = measure.Finding("s", "c", "all", None, failed=True)
    assert failed.judged
    assert failed.missed


def test_ratios_are_paired(measure):
    slow, fast = measure.Times([4.0, 40.0, 8.0], [4.0, 4.0, 4.0]), measure.Times([1.0, 20.0, 2.0], [1.0, 1.0, 1.0])
    assert slow.over(fast) == (4.0, 4.0)
    assert measure.Times([6.0], [6.0]).over(fast) == (3.0, 6.0)


def test_a_failing_case_is_shown_and_measured_again(command, measure, tmp_path, capsys):
    path = tmp_path / "numbers.json"
    fails, calls = [True], []

    def section(quick, before):
        def unit(case):
            calls.append(case)
            if case == "second" and fails:
                raise ValueError("no\nsecond line")
            return [measure.Finding("s", case, "w", 2.0, 1.0)]

        for case in ("first", "second", "third"):
            yield measure.Unit(case, lambda case=case: unit(case))

    def run(resume, environment):
        record = command.Record(path, environment, resume)
        for found in command.findings("s", section, False, record):
            record.add(found)
        return {one.case: (one.verdict, one.note) for one in record.of("s")}

    reached = ("reached, 2.00x", "")
    assert run(False, {"threads": 1}) == {"first": reached, "second": ("FAILED", "ValueError: no"), "third": reached}
    assert "second line" in capsys.readouterr().err
    calls.clear()
    fails.clear()
    assert run(True, {"threads": 1}) == dict.fromkeys(("first", "second", "third"), reached)
    assert calls == ["second"]
    with pytest.raises(ValueError, match="was measured with"):
        run(True, {"threads": 2})


def test_what_was_found_is_kept_when_the_run_is_cut(command, measure, tmp_path):
    path = tmp_path / "numbers.json"

    def section(quick, before):
        yield measure.Unit("first", lambda: [measure.Finding("s", "first", "w", 2.0, 1.0)])
        raise KeyboardInterrupt

    def run():
        record = command.Record(path, {}, False)
        for found in command.findings("s", section, False, record):
            record.add(found)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert [one.case for one in command.Record(path, {}, True).found] == ["first"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_eager_ways_give_the_same(cases, peers, train, causal):
    batch = cases.Batch.of(cases.Case(40, 5, causal=causal, train=train, heads=2, width=8))

    def results(way):
        attend = way(batch)
        return [attend.packed(one) for one in (attend.backward() if train else (attend.forward(),))]

    expected = results(peers.loop)
    for way in (peers.loop_in_place, peers.nested):
        try:
            found = results(way)
        except peers.UnavailableError:
            assert (way is peers.loop_in_place and train) or (way is peers.nested and causal)
            continue
        torch.testing.assert_close(found, expected)


def test_peers_that_fail_or_are_wrong_are_missing(cases, peers, speed):
    def fails(batch):
        raise RuntimeError("cannot")

    def wrong(batch):
        return peers.loop(cases.Batch.of(batch.case, seed=1))

    def cannot(batch):
        raise peers.UnavailableError("not here")

    case = cases.Case(40, 5, heads=2, width=8)
    ways = {"loop": peers.loop, speed.OURS: peers.loop_in_place, "fails": fails, "wrong": wrong, "cannot": cannot}
    result = speed.run(case, ways, {"fails": 1, "loop": 1}, rounds=1)
    assert set(result.times) == {"loop", speed.OURS}
    assert result.missing["fails"] == "failed: RuntimeError: cannot"
    assert result.missing["wrong"].startswith("failed: AssertionError: Tensor-likes are not close")
    assert result.missing["cannot"] == "not here"
    with pytest.raises(AssertionError):
        speed.run(case, {"loop": peers.loop, speed.OURS: wrong}, {}, rounds=1)


def test_cells_not_run_are_judged_by_smaller_ones(cases, peers, speed, monkeypatch):
    monkeypatch.setattr(speed, "run", lambda case, ways, bars, rounds: speed.Result({speed.OURS: times(1.0)}, {}))
    times = lambda ms: module("attention_measure").Times([ms / 1e3], [ms / 1e3])  # noqa: E731
    case = cases.Case(4096, 16, train=True)
    smaller = str(cases.Case(1024, 16, train=True))
    found = speed._cell(case, {(smaller, "nested / lowered"): 600.0, (smaller, "padded / lowered"): 400.0}, rounds=1)
    assert [(one.what, one.note) for one in found] == [
        ("nested / lowered", "not run: some 10 s a call, to judge by S=1024")
    ]


@pytest.mark.parametrize("kind", ["skewed", "equal"])
@pytest.mark.parametrize(("rows", "documents"), [(1024, 4), (1024, 1024), (1000, 7)])
def test_lengths(cases, kind, rows, documents):
    lengths = cases.lengths_of(rows, documents, kind)
    assert (sum(lengths), len(lengths)) == (rows, documents)
    assert min(lengths) >= 1
    if kind == "equal":
        assert max(lengths) - min(lengths) <= 1


def test_the_promised_skew(cases):
    assert sum(length**2 for length in cases.lengths_of(4096, 16, "skewed")) / 4096**2 == pytest.approx(0.081, abs=5e-4)
