"""`benchmarks.gpu_check` without a GPU: its command on the CPU, its cases, and that it would notice what is wrong."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shapecheck.compile_backend import lower

from shapecheck._attention.kernels import cuda

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def layouts():
    return module("gpu_check_cases")


@pytest.fixture(scope="module")
def report():
    return module("gpu_check_report")


@pytest.fixture(scope="module")
def results():
    return module("gpu_check_results").results


@pytest.fixture(scope="module")
def compiled():
    return module("gpu_check_compiled")


@pytest.fixture(scope="module")
def measure():
    return module("gpu_check_measure")


def module(name):
    sys.path.append(str(ROOT))  # behind everything: `shapecheck` stays the installed one
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


def command(*arguments):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "benchmarks.gpu_check", *arguments]
    return subprocess.run(
        words, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8"
    )


@pytest.mark.slow
def test_the_command_on_the_cpu(tmp_path):
    written = tmp_path / "rows.json"
    run = command("--device", "cpu", "--quick", "--json", str(written))
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(written.read_text())["rows"]
    assert list(dict.fromkeys(row["section"] for row in rows)) == ["results", "rules", "compiled"]
    assert {row["status"] for row in rows if row["section"] != "rules"} == {"ok"}
    assert {(row["status"], row["note"]) for row in rows if row["section"] == "rules"} == {("skipped", "needs CUDA")}
    assert all(row["path"].startswith("cpu") for row in rows if row["section"] == "results")
    timed = [row for row in rows if "ms [" in row["name"]]
    assert len(timed) == 8
    assert all({"shapecheck", "stock", "loop"} == set(row["numbers"]) for row in timed)
    assert "0 wrong, 0 error, 7 skipped" in run.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without CUDA")
def test_without_cuda_it_says_so():
    run = command()
    assert run.returncode == 2
    assert run.stdout.startswith("No CUDA device here")


@pytest.mark.parametrize("scale", [8, 64])
def test_cases_take_the_paths_that_they_name(layouts, scale):
    taken = set()
    for case in layouts.cases(scale):
        given = layouts.inputs(case, CPU)
        by_flex = cuda.uses_flex(given.q, given.k, given.call)
        assert by_flex == (case.path == layouts.FLEX), case.name
        assert cuda.KERNEL.refuses(given.q, given.k, given.v, given.call) is None, case.name
        taken.add(case.path)
    assert taken == {layouts.FLEX, layouts.VARLEN, layouts.GATHERED}


def spoiled(layouts, monkeypatch, change):
    right = layouts.run

    def wrong(given):
        return change(right(given))

    monkeypatch.setattr(layouts, "run", wrong)
    monkeypatch.setattr(
        layouts, "cases", lambda scale: (layouts.Case(name="one", path="", lengths_q=(9, 0, 4), tail=2),)
    )


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda found: found._replace(out=found.out * 1.02), "out is off"),
        (lambda found: found._replace(dk=found.dk.index_fill(0, torch.tensor([3]), 0)), "dk is off"),
        (lambda found: found._replace(dv=found.dv.index_fill(0, torch.tensor([14]), torch.nan)), "dv is off by nan"),
        (lambda found: found._replace(lse=found.lse.nan_to_num(neginf=0)), "lse is not -inf exactly where"),
        (lambda found: found._replace(lse=found.lse + 0.01), "lse is off"),
    ],
)
def test_a_wrong_result_is_a_row_and_a_failure(layouts, report, results, monkeypatch, change, note):
    spoiled(layouts, monkeypatch, change)
    check = report.Check(CPU, quick=True, budget=60)
    results(check)
    (row,) = check.rows
    assert row.status == "wrong"
    assert note in row.note
    assert check.failed


def test_a_failing_row_hides_no_other(layouts, report, results, monkeypatch):
    cases = [layouts.Case(name=str(one), path="", lengths_q=(3,)) for one in range(3)]
    monkeypatch.setattr(layouts, "cases", lambda scale: cases)
    right = layouts.run

    def fails_once(given):
        if fails_once.calls == 1:
            fails_once.calls += 1
            raise RuntimeError("misaligned address")
        fails_once.calls += 1
        return right(given)

    fails_once.calls = 0
    monkeypatch.setattr(layouts, "run", fails_once)
    check = report.Check(CPU, quick=True, budget=60)
    results(check)
    assert [row.status for row in check.rows] == ["ok", "error", "ok"]
    assert check.rows[1].note == "RuntimeError: misaligned address"
    assert check.failed


def test_a_section_that_had_no_time_is_a_failure(report, results):
    check = report.Check(CPU, quick=True, budget=0)
    results(check)
    assert {row.note for row in check.rows} == {"no time left"}
    assert check.failed


def test_a_program_that_is_not_lowered_is_wrong(report, compiled, monkeypatch):
    programs = module("gpu_check_programs")

    def uncomputable(q, k, v, ids):
        mask = (ids[:, None] * ids[None, :]) > 0
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    monkeypatch.setattr(compiled, "PROGRAMS", (programs.Program("odd", uncomputable, programs.any_ids, "same"),))
    check = report.Check(CPU, quick=True, budget=60)
    compiled.compiled(check)
    (row,) = check.rows
    assert (row.status, row.note) == ("wrong", "was not lowered")


@pytest.mark.parametrize("index", range(5))
def test_programs_are_lowered_on_cuda_too(monkeypatch, index):
    programs, peers = module("gpu_check_programs"), module("gpu_check_peers")
    monkeypatch.setattr(lower, "kernel_for", lambda device: cuda.KERNEL)
    monkeypatch.setattr(lower, "on_host", lambda graph, before, known: known)
    program = programs.PROGRAMS[index]
    q = torch.empty(1, programs.HEADS, 256, programs.WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)
    k, v = torch.empty_like(q), torch.empty_like(q)
    programs.fix_heads(q, k, v)
    lowered = peers.Lowered(program.function, "eager")
    torch._dynamo.reset()
    lowered(q, k, v, program.metadata(256, CPU).to("meta"))
    assert lowered.lowered


def test_another_way_that_runs_out_of_memory_is_left_out(report, compiled, monkeypatch):
    programs = module("gpu_check_programs")

    def greedy(*tensors):
        raise torch.OutOfMemoryError("64 GiB")

    check = report.Check(CPU, quick=True, budget=60)
    sample = compiled.Sample(programs.PROGRAMS[0], 64, torch.bfloat16, check)
    ways = {compiled.OURS: programs.of_documents, "stock": greedy, "again": programs.of_documents}
    compiled._timed(check, programs.PROGRAMS[0], ways, sample)
    assert [row.status for row in check.rows] == ["ok", "skipped", "ok", "ok", "ok"]
    assert set(check.rows[-1].numbers) == {"shapecheck", "again"}
    assert not any(row.status == "error" for row in check.rows)
    check = report.Check(CPU, quick=True, budget=60)
    compiled._timed(check, programs.PROGRAMS[0], {compiled.OURS: greedy, "again": programs.of_documents}, sample)
    assert [row.status for row in check.rows] == ["error", "ok", "skipped", "skipped"]


def test_another_batch_for_a_captured_call_keeps_its_promises(layouts):
    rules = module("gpu_check_rules")
    moved = 0
    for case in layouts.cases(64):
        given = layouts.inputs(case, CPU)
        before = given.call.cu_seqlens_q.clone()
        rules.exchange(given, layouts.inputs(case, CPU, seed=1))
        moved += not torch.equal(given.call.cu_seqlens_q, before)
        lengths = given.call.cu_seqlens_q.diff()
        assert lengths.min() >= 0, case.name
        assert lengths.max() <= given.call.max_seqlen_q, case.name
    assert moved > 5


@pytest.mark.parametrize("longest", [1, 100, 4096, 32768])
def test_the_longest_document_is_an_upper_bound(longest):
    programs = module("gpu_check_programs")
    found = int(programs.documents(longest, CPU).diff().max())
    assert found <= programs.longest_document(longest) <= found + 1


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(int)", "flash_fwd_kernel"),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<int>>>(int)", "FlashAttnFwdSm90"),
        (
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)",
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
        ),
        ("triton_tem_fused_flex_attention_0", "triton_tem_fused_flex_attention_0"),
        ("void at::native::vectorized_elementwise_kernel<4, float>(int)", "vectorized_elementwise_kernel"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu"),
    ],
)
def test_kernel_names(measure, kernel, name):
    assert measure.short_name(kernel) == name


def test_times_without_compilation_only(measure):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    sizes = iter(range(2, 20))
    with pytest.raises(RuntimeError, match="something was compiled while the clock ran"):
        measure.paired({"one": lambda: compiled(torch.ones(next(sizes)))}, CPU, rounds=3)
    times = measure.paired({"one": lambda: compiled(torch.ones(2))}, CPU, rounds=3)
    assert len(times["one"]) == 3
    assert measure.median_ratio({"a": [4, 9, 2], "b": [2, 3, 2]}, "a", "b") == 2
