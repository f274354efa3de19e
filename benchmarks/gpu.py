"""State-space layers on one GPU: layers, training steps, errors, streams, profiles, a long sequence, a compiler.

    python benchmarks/gpu.py --record results/bench-gpu-h200.json
    python benchmarks/gpu.py --rows layer step --match S4-PTD
    python benchmarks/gpu.py --record results/bench-gpu-h200.json --draw docs

Times are milliseconds of a forward and a backward pass: the median of several, replayed from a CUDA graph and called.
Beside ours stand the textbook implementation (``textbook.py``), a convolution by cuFFT with a kernel given, and the
time to move the bytes that cannot be avoided. The rows are listed in ``cases.py``. ``--tiny`` tries everything on a CPU
in seconds, at sizes without meaning.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cases import COMPILE, ERRORS, LAYERS, LONG, PROFILES, STEPS, STREAMS, Case
from textbook import How, Textbook, convolve
from timing import PRECISIONS, Measured, Run, autocast, copy_milliseconds, measure, multiplying, release
from wellposed.nn import SequenceClassifier, SequenceLayer
from wellposed.records import provenance

Row = dict[str, Any]
PASSES = 5
"""Over the sequence: forward reads u and writes y, backward reads u and dy and writes du."""
BF16_GAIN = 1.4
"""How many times faster than with tf32 a training step has to be under bf16 autocast."""
ERROR_BARS = {"highest": 5e-6, "high": 3e-3}

# --- what is measured


def layer_pass(layer: SequenceLayer, case: Case, device: str, precision: str) -> Run:
    """Outputs and all gradients."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    u = torch.randn(case.batch, case.length, case.channels, device=device, dtype=dtype, requires_grad=True)
    dy, inputs = torch.randn_like(u), [u, *layer.parameters()]

    def run() -> object:
        with autocast(device, precision):
            y = layer(u)
        return torch.autograd.grad(y, inputs, dy)

    return run


def training_step(model: SequenceClassifier, case: Case, device: str, precision: str) -> Run:
    """Gradients of a batch, and a step of AdamW."""
    x = torch.randn(case.batch, case.length, case.inputs, device=device)
    target = torch.randint(case.classes, (case.batch,), device=device)
    cuda = device == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=cuda, capturable=cuda)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        with autocast(device, precision):
            loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()

    return run


def convolution_pass(case: Case, device: str) -> Run:
    """cuFFT alone: the kernel is given, and channels lie as the FFT likes them."""
    u = torch.randn(case.batch, case.channels, case.length, device=device, requires_grad=True)
    kernel, dy = torch.randn(1, case.channels, case.length, device=device, requires_grad=True), torch.randn_like(u)
    return lambda: torch.autograd.grad(convolve(u, kernel), [u, kernel], dy)


def floor(case: Case, device: str, precision: str) -> float:
    """Milliseconds to move what has to be read and written, at the speed of a copy: once a block."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    copied = copy_milliseconds(case.batch * case.length * case.channels, dtype, device)
    return max(case.depth, 1) * PASSES / 2 * copied


def textbooks(case: Case) -> tuple[How, ...]:
    """S5 is written down as a scan; the others are not."""
    return ("fft", "scan") if case.layer.startswith("s5") else ("fft",)


def timed_rows(case: Case, device: str) -> Iterator[Row]:
    """A row for each precision; the baselines are measured once, in tf32."""
    beside: dict[str, Measured] = {}
    with multiplying("high"):
        for how in textbooks(case):
            beside["textbook" if how == "fft" else "scan"] = measure(_pass(case, device, "high", how), device)
            release()
        if not (case.depth or case.layer.startswith("s5")):
            beside["cufft"] = measure(convolution_pass(case, device), device)
    tf32 = None
    for precision in PRECISIONS:
        with multiplying(precision):
            ours = measure(_pass(case, device, precision), device)
        bar = case.bars.get(precision)
        if precision == "high":
            tf32 = ours["graph"]
        if precision == "bf16" and case.depth and tf32:
            bar = tf32 / BF16_GAIN
        row = {
            "row": case.name,
            "precision": precision,
            "ours": ours,
            **beside,
            "floor": floor(case, device, precision),
        }
        row |= {"published": case.published, "bar": bar, "met": _met(ours["graph"], bar)}
        row |= {"memory_met": _met(ours["bytes"], _half_of(beside))}
        if case.eager_bar and precision == "high":
            row |= {"eager_bar": case.eager_bar, "eager_met": _met(ours["eager"], case.eager_bar)}
        yield row


def _pass(case: Case, device: str, precision: str, how: How | None = None) -> Run:
    if case.depth:
        return training_step(case.make_model(how).to(device), case, device, precision)
    layer = case.make_layer().to(device)
    return layer_pass(layer if how is None else Textbook(layer, how), case, device, precision)


def _half_of(beside: dict[str, Measured]) -> float | None:
    """The most memory that ours may take: half of what the leaner way to write it down takes."""
    known = [m["bytes"] for name, m in beside.items() if name != "cufft" and m["bytes"] is not None]
    return min(known) / 2 if known else None


def _met(found: float | None, bar: float | None) -> bool | None:
    return None if found is None or bar is None else found <= bar


def error_rows(case: Case, device: str) -> Iterator[Row]:
    """Values and every gradient against the textbook in float64, norm of the difference over the norm; and the time."""
    layer = case.make_layer().to(device)
    generator = torch.Generator(device).manual_seed(0)
    # Numbers that bf16 can hold, so that what is measured is the arithmetic and not the rounding of the input.
    u, dy = torch.randn(
        2, case.batch, case.length, case.channels, device=device, generator=generator, dtype=torch.bfloat16
    )
    exact = _all_of(Textbook(copy.deepcopy(layer).double()), u.double(), dy.double(), device, "highest")
    for precision in PRECISIONS:
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        with multiplying(precision):
            found = _all_of(layer, u.to(kind), dy.to(kind), device, precision)
            ours = measure(layer_pass(layer, case, device, precision), device)
        errors = {name: _distance(found[name], right) for name, right in exact.items()}
        bar, worst = ERROR_BARS.get(precision), max(errors.values())
        row = {"row": case.name, "precision": precision, "errors": errors, "ours": ours}
        yield row | {"bar": bar, "met": _met(worst, bar)}
    release()


def _all_of(layer: SequenceLayer, u: Tensor, dy: Tensor, device: str, precision: str) -> dict[str, Tensor]:
    u = u.clone().requires_grad_()
    parameters = {name.removeprefix("own."): parameter for name, parameter in layer.named_parameters()}
    with autocast(device, precision):
        y = layer(u)
    gradients = torch.autograd.grad(y, [u, *parameters.values()], dy)
    return {"y": y.detach(), "du": gradients[0], **dict(zip(parameters, gradients[1:], strict=True))}


def _distance(found: Tensor, right: Tensor) -> float:
    return float((found.double() - right).norm() / right.norm())


def stream_rows(case: Case, device: str) -> Iterator[Row]:
    """Steps a second, one at a time."""
    model = case.make_model().to(device).eval()
    x = torch.randn(case.batch, case.inputs, device=device)
    row: Row = {"row": case.name, "precision": "high"}
    with torch.no_grad(), multiplying("high"):
        for name, step in (("step", model.step), ("stepper", model.stepper())):
            row[name] = _steps_a_second(step, x, model.initial_state(case.batch), device)
    yield row


def _steps_a_second(step: Callable[..., Any], x: Tensor, state: Any, device: str) -> float:
    count, start = 100 if device == "cuda" else 5, 0.0
    for k in range(2 * count):
        if k == count:
            start = _now(device)
        _, state = step(x, state)
    return count / (_now(device) - start)


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def long_rows(case: Case, device: str) -> Iterator[Row]:
    """A training step over one very long sequence, which the textbook's kernel would not fit."""
    with multiplying("high"):
        yield {"row": case.name, "precision": "high", "ours": measure(_pass(case, device, "high"), device)}


def profile_rows(case: Case, device: str) -> Iterator[Row]:
    """Where the time of a pass goes: milliseconds and calls of each kernel, and of what the host does meanwhile."""
    from torch.profiler import ProfilerActivity

    with multiplying("high"):
        run = _pass(case, device, "high")
        for _ in range(3):
            run()
        host = _profiled(run, device, ProfilerActivity.CPU, "self_cpu_time_total")
        kernels = _profiled(run, device, ProfilerActivity.CUDA, "self_device_time_total") if device == "cuda" else host
    yield {"row": case.name, "precision": "high", "kernels": kernels, "host": host}


def _profiled(run: Run, device: str, activity: Any, of: str) -> dict[str, list[float]]:
    """The 20 longest of one pass. Each side is watched by itself: watching one slows the other."""
    from torch.profiler import profile

    with profile(activities=[activity]) as seen:
        run()
        _now(device)
    found = {each.key: [getattr(each, of) / 1e3, each.count] for each in seen.key_averages() if getattr(each, of)}
    return dict(sorted(found.items(), key=lambda item: -item[1][0])[:20])


def compile_rows(case: Case, device: str) -> Iterator[Row]:
    """Seconds until a compiled model has done its first forward and backward, in a process without caches."""
    with tempfile.TemporaryDirectory() as caches:
        own = {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton"}
        command = [sys.executable, __file__, "--one-compile", device]
        done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False, timeout=150)
    if done.returncode:
        yield {"row": case.name, "precision": "high", "failed": done.stderr.strip().splitlines()[-1][:300]}
    else:
        yield {"row": case.name, "precision": "high"} | json.loads(done.stdout.splitlines()[-1])


def compile_once(case: Case, device: str) -> Row:
    """Cold seconds, seconds of the next step, graphs made for it and for a batch of another size."""
    from torch._dynamo.utils import counters

    torch.set_float32_matmul_precision("high")
    model = case.make_model().to(device)
    # A CPU's code generator may lack a C++ compiler; there the graphs alone are looked at.
    compiled = torch.compile(model, backend="inductor" if device == "cuda" else "eager")

    def seconds(batch: int) -> float:
        x = torch.randn(batch, case.length, case.inputs, device=device)
        target, start = torch.zeros(batch, dtype=torch.int64, device=device), _now(device)
        F.cross_entropy(compiled(x), target).backward()
        return _now(device) - start

    cold = seconds(case.batch)
    graphs = counters["stats"]["unique_graphs"]
    warm, other = seconds(case.batch), seconds(case.batch - case.batch // 4)
    anew = counters["stats"]["unique_graphs"] - graphs
    row = {"cold_seconds": cold, "warm_seconds": warm, "other_batch_seconds": other, "graphs": graphs}
    return row | {"compiled_anew": anew, "bar": 60.0, "met": cold <= 60 and not anew}


SECTIONS: dict[str, tuple[Callable[[Case, str], Iterator[Row]], tuple[Case, ...]]] = {
    "layer": (timed_rows, LAYERS),
    "step": (timed_rows, STEPS),
    "errors": (error_rows, ERRORS),
    "stream": (stream_rows, STREAMS),
    "long": (long_rows, LONG),
    "profile": (profile_rows, PROFILES),
    "compile": (compile_rows, COMPILE),
}


# --- what is written


def rows_of(section: str, device: str, tiny: bool, match: str) -> Iterator[Row]:
    """Every row of a section whose name holds ``match``; one that fails says so and the next goes on."""
    make, cases = SECTIONS[section]
    for case in cases:
        if match not in case.name:
            continue
        try:
            for row in make(shrunk(case) if tiny else case, device):
                yield {"section": section} | row
        except Exception as error:  # a crash in one row must not lose the others
            yield {"section": section, "row": case.name, "precision": "-", "failed": f"{type(error).__name__}: {error}"}
        release()


def shrunk(case: Case) -> Case:
    """The same at a size a CPU does at once."""
    states = {"d_state": 12, "blocks": 3} if "blocks" in case.options else {"d_state": 8}
    options, depth = case.options | states, min(case.depth, 2)
    return replace(
        case, batch=min(case.batch, 4), length=min(case.length, 24), channels=4, options=options, depth=depth
    )


def save(path: Path, rows: list[Row], start: float, command: str) -> None:
    """The record as it stands."""
    record = {"rows": rows, "provenance": provenance(command, time.perf_counter() - start, seed=0)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(rows: list[Row]) -> None:
    """All rows, each section with its own columns."""
    timed = [row for row in rows if "floor" in row]
    if timed:
        names = ("graph", "eager", "textbook", "scan", "cuFFT", "floor", "bar")
        print(
            f"\n{'milliseconds':36} {'':8}"
            + "".join(f"{name:>9}" for name in names)
            + "  met   memory, MiB: ours, others', at most half"
        )
        for row in timed:
            print(_timed_line(row))
    for row in rows:
        if "floor" not in row:
            print(_other_line(row))


def _timed_line(row: Row) -> str:
    def number(kind: str) -> float | None:
        return row.get(kind, {}).get("graph") or row.get(kind, {}).get("eager")

    numbers = (row["ours"]["graph"], row["ours"]["eager"], number("textbook"), number("scan"), number("cufft"))
    shown = "".join(_shown(value) for value in (*numbers, row["floor"], row["bar"]))
    memory = " / ".join(_mebibytes(row[kind]["bytes"]) for kind in ("ours", "textbook", "scan") if kind in row)
    memory += f" {_word(row['memory_met'])}"
    eager = "" if "eager_met" not in row else f"; called, {row['eager_bar']:g}: {_word(row['eager_met'])}"
    why = "".join(
        f"; {kind} {row[kind]['failed']}" for kind in row if isinstance(row[kind], dict) and "failed" in row[kind]
    )
    return f"{row['row']:36} {row['precision']:8}{shown}  {_word(row['met']):5} {memory}{eager}{why}"


def _other_line(row: Row) -> str:
    head = f"{row['section']:8} {row['row']:36} {row['precision']:8}"
    if "failed" in row:
        return f"{head} failed: {row['failed']}"
    if "errors" in row:
        worst = max(row["errors"], key=row["errors"].get)
        values, largest = row["errors"]["y"], row["errors"][worst]
        return f"{head} values {values:.1e}, worst {largest:.1e} ({worst}), met: {_word(row['met'])}"
    skipped = ("section", "row", "precision")
    return f"{head} {json.dumps({name: value for name, value in row.items() if name not in skipped})}"


def _shown(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:9.3f}"


def _mebibytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 2**20:.0f}"


def _word(met: bool | None) -> str:
    return "-" if met is None else "yes" if met else "no"


def draw(record: Path | None, docs: Path, parser: argparse.ArgumentParser) -> None:
    """Figure and tables of the docs; apart from the measurement, since a machine with a GPU may lack what draws."""
    import page
    from wellposed.report import save_speed

    if record is None:
        parser.error("--draw needs a record: name it with --record")
    print(save_speed(record, docs / "assets" / "bench-gpu.svg"))
    print(page.fill(record, docs / "devdocs" / "gpu.md"))


def main() -> None:
    """Measure, print a line as soon as there is one, and a table at the end; with --record, keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--match", default="", help="only rows whose name holds this")
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    parser.add_argument("--tiny", action="store_true", help="very small sizes, on the CPU, without graphs")
    parser.add_argument(
        "--draw", type=Path, help="measure nothing: figure and tables of this folder of documents, from the record"
    )
    parser.add_argument("--one-compile", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.draw:
        draw(options.record, options.draw, parser)
        return
    device = options.one_compile or ("cpu" if options.tiny else "cuda")
    if options.one_compile:
        case = COMPILE[0]
        print(json.dumps(compile_once(shrunk(case) if device == "cpu" else case, device)))
        return
    if device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU here: --tiny tries the benchmark on the CPU")
        return
    start, rows = time.perf_counter(), []
    command = " ".join(["python benchmarks/gpu.py", *(sys.argv[1:])])
    for section in options.rows:
        for row in rows_of(section, device, options.tiny, options.match):
            rows.append(row)
            print(f"{time.perf_counter() - start:6.1f} s  {section:8} {row['row']}, {row['precision']}", flush=True)
            if options.record:
                save(options.record, rows, start, command)
    table(rows)


if __name__ == "__main__":
    main()
