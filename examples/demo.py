"""`make demo`: a real packed request under its contract, three faults with and without it, and what it costs; a
pipeline that packs by hand, linted and mended; two packed models compiled by Inductor alone and with the backend.

Exits with 1 if a fault does not raise the error that it should, or is still there after the fixes; or if the backend
leaves an attention as it is, or changes a result.
"""

import importlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from inspect import getsource
from io import TextIOWrapper
from pathlib import Path
from traceback import extract_tb
from typing import Any

import packed_lm
from comparison import Comparison, compare_inference, compare_training, own_cache
from packed_dit import SIZES, Batch, Config, PackedDiT, RequestSize, build_model, faults, prepare, random_request
from rich.console import Console
from rich.syntax import Syntax

import shapecheck

ROOT = Path(__file__).resolve().parent.parent

NARROW = Config(hidden=16, heads=1, depth=2)
"""Two blocks of one narrow head, so that two CPU cores attend over 58,816 rows within seconds."""

CLIPS = tuple(
    RequestSize(text=16 + 8 * t, image=None, audio=(5 * t, 1, 2), video=(t, 12, 20)) for t in (1, 1, 2, 2, 3, 4, 5, 9)
)
"""Eight requests of other lengths: 7,104 rows, of which the longest has 2,338."""

DOCUMENTS = (1400, 840, 600, 360, 240, 180, 120, 96, 72, 56, 40, 32, 24, 18, 12, 6)
"""Bytes of sixteen documents, 4,096 in all."""

console = Console(highlight=False, markup=False, soft_wrap=True)


def heading(text: str) -> None:
    console.print()
    console.rule(text, align="left", style="bold")


def show_request(model: PackedDiT, batch: Batch) -> None:
    """The layout of a real request, and the forward over it."""
    heading("One 720p request, packed")
    print(batch.layout)
    heading(f"The forward under its contract, S = {batch.layout.seq_len:,}")
    started = time.perf_counter()
    video, audio = model(**batch.arguments)
    seconds = time.perf_counter() - started
    console.print(f"video velocity {list(video.shape)}, audio velocity {list(audio.shape)}: {seconds:.1f} s")


def show_fault(title: str, caller: Callable[..., Any], error: type[Exception], problem: str, *args: Any) -> bool:
    """What the caller wrote and the error that it gets; whether that is an `error` whose text begins with `problem`."""
    heading(title)
    console.print("The caller wrote\n", style="bold")
    show_source(caller)
    console.print("\nand gets\n", style="bold")
    try:
        caller(*args)
    except error as raised:
        console.print(f"{type(raised).__name__}: {raised}", style="red")
        return str(raised).startswith(problem)
    except Exception as raised:
        console.print(f"UNEXPECTED {type(raised).__name__}: {raised}", style="bold red")
        return False
    console.print(f"NO ERROR, expected {error.__name__}", style="bold red")
    return False


def show_without(what: str, caller: Callable[..., Any], *args: Any) -> None:
    """What the same mistake comes to without shapecheck."""
    console.print(f"\n{what}\n", style="bold")
    try:
        caller(*args)
    except Exception as raised:
        frame = [frame for frame in extract_tb(raised.__traceback__) if "packed_dit" in frame.filename][-1]
        console.print(f"{type(raised).__name__}: {raised}")
        console.print(f"  late, at {Path(frame.filename).name}:{frame.lineno}: {frame.line}")
    else:
        console.print("no error")


def show_source(function: Callable[..., Any]) -> None:
    source = getsource(function).rstrip()
    console.print(Syntax(source, "python", theme="ansi_dark") if console.is_terminal else source)


def show_faults(model: PackedDiT, batch: Batch) -> list[bool]:
    """Each of the three faults; whether each raised what it should."""
    bare = faults.without_contract(model)
    without = "Without the contract"
    rows = batch.layout.seq_len
    found = []

    for title, caller, tags in (
        ("Fault 1: tags of one modality", faults.tags_of_one_modality, 57600),
        ("Fault 1 again: tags made before padding", faults.tags_before_padding, batch.layout.used),
    ):
        problem = f"PackedDiT.forward: token_tags axis 0 (S) is {tags}, expected {rows}\n"
        found.append(show_fault(title, caller, shapecheck.ContractError, problem, model, batch))
        show_without(without, caller, bare, batch)

    cached = faults.seq_len_without_image(batch)
    problem = f"seq_len is {cached}, but the parts need {batch.layout.used} rows\n"
    title = "Fault 2: a cached seq_len"
    found.append(show_fault(title, faults.layout_of_cached_seq_len, shapecheck.LayoutError, problem, batch, cached))
    console.print("\nPacked by hand, it would read\n", style="bold")
    show_source(faults.rows_of_cached_seq_len)
    show_without("which the model without its contract takes as", faults.rows_of_cached_seq_len, bare, batch, cached)
    console.print(f"  the padding trimmed {batch.layout.used - cached} rows of video without a word")

    # Two small requests: without the contract this one runs to its end.
    pair = prepare([random_request(SIZES[name], model.config, seed) for seed, name in enumerate(("small", "tiny"))])
    problem = "PackedDiT.forward: cu_seqlens_k axis 0 (B+1) is 3, expected 4\n"
    title = "Fault 3: boundaries of different batches"
    found.append(show_fault(title, faults.keys_of_another_batch, shapecheck.ContractError, problem, model, pair))
    show_without(without, faults.keys_of_another_batch, bare, pair)
    right, wrong = model(**pair.arguments)[0], faults.keys_of_another_batch(bare, pair)[0]
    difference = (right - wrong).abs().amax(dim=1)[pair.arguments["update_mask"]]
    console.print(
        "  silently wrong: the first request attends to the second, and the second to padding;\n"
        f"  {int((difference > 1e-4).sum())} of {len(difference)} denoised video rows differ, "
        f"by up to {float(difference.max()):.2f}"
    )
    return found


def show_lint() -> bool:
    """Lint the hand-packing pipeline, apply the fixes, lint again, run it; whether it was at fault before and is
    right after."""
    heading("The linter on a pipeline that packs by hand")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "mended_pipeline"
        shutil.copytree(ROOT / "examples" / "request_pipeline", package, ignore=shutil.ignore_patterns("__pycache__"))
        before = lint(folder)
        console.print("Run as it is\n", style="bold")
        wrong = run_pipeline(package)
        console.print("\nshapecheck lint --fix --unsafe-fixes\n", style="bold")
        fixed = lint(folder, "--fix", "--unsafe-fixes")
        console.print("Run again\n", style="bold")
        still_wrong = run_pipeline(package)
    return before == 1 and fixed == 0 and wrong > 0 and still_wrong == 0


def lint(folder: str, *options: str) -> int:
    """Run the command in a folder; its exit status."""
    color = "always" if console.is_terminal else "never"
    command = [
        sys.executable,
        "-P",
        "-m",
        "shapecheck",
        "lint",
        "--isolated",
        "--no-cache",
        "--color",
        color,
        *options,
        ".",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    return done.returncode


def run_pipeline(package: Path) -> int:
    """Call each function of the pipeline in a process of its own; how many of them fail or give what a loop would
    not."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("run_pipeline.py")), str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    return done.returncode


def show_backend() -> list[bool]:
    """Both models compiled both ways; whether each came out equal, all its attentions lowered."""
    with own_cache():
        model = build_model(Config(depth=1, attention="masked"))
        requests = [random_request(size, model.config, seed) for seed, size in enumerate(CLIPS)]
        batch = prepare(requests)
        heading(f"The backend: the DiT on {len(CLIPS)} requests, S = {batch.layout.seq_len:,}, under a mask")
        passed = [show_comparison(compare_inference(model, dict(batch.arguments)))]

        language_model = packed_lm.build_model(packed_lm.Config(hidden=32, depth=1))
        packed = packed_lm.pack_documents(packed_lm.random_documents(DOCUMENTS))
        heading(f"The backend: training a language model on {len(DOCUMENTS)} documents, S = {sum(DOCUMENTS):,}")

        def loss(form: Callable[..., Any]) -> Any:
            return packed_lm.next_token_loss(form(packed.tokens, packed.position_ids), packed.labels)

        passed.append(show_comparison(compare_training(language_model, loss)))
    return passed


def show_comparison(found: Comparison) -> bool:
    """What came of one; whether it passed."""
    console.print("one call, compiled")
    console.print(f"  by Inductor               {1000 * found.stock:7,.0f} ms")
    console.print(
        f'  with backend="shapecheck" {1000 * found.ours:7,.0f} ms, {found.stock / found.ours:.1f} times as fast'
    )
    verdict = "equal but for rounding" if found.passed else "NOT EQUAL, OR NOT LOWERED"
    console.print(f"results differ by {found.difference:.0e} of the largest entry: {verdict}\n")
    print(found.explanation)
    return found.passed


def show_cost() -> None:
    """Time per call beside hand-written checks and jaxtyping, if the benchmarks are there."""
    heading("What a contract costs per call")
    if (ROOT / "benchmarks" / "contracts.py").exists():
        console.print(benchmark().quick_table())
    else:
        console.print("the benchmarks are not here: run the demo in a clone")


def benchmark() -> Any:
    """The module `benchmarks.contracts` of this repository.

    Without the repository's root on `sys.path`: its folder `shapecheck` would shadow the installed package.
    """
    spec = PathFinder.find_spec("benchmarks", [str(ROOT)])
    assert spec is not None
    package = module_from_spec(spec)
    sys.modules["benchmarks"] = package
    if spec.loader is not None:
        spec.loader.exec_module(package)
    return importlib.import_module("benchmarks.contracts")


def main() -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the table is drawn with more than ASCII
    started = time.perf_counter()
    model = build_model(NARROW)
    batch = prepare([random_request(SIZES["720p"], model.config)])
    show_request(model, batch)
    found = show_faults(model, batch)
    mended = show_lint()
    show_cost()
    lowered = show_backend()
    outcome = "mended" if mended else "NOT MENDED"
    seconds = time.perf_counter() - started
    caught = f"{sum(found)} of {len(found)} faults caught"
    heading(
        f"{caught}, the pipeline {outcome}, {sum(lowered)} of {len(lowered)} models lowered, {seconds:.0f} s in all"
    )
    return 0 if all(found) and mended and all(lowered) else 1


if __name__ == "__main__":
    sys.exit(main())
