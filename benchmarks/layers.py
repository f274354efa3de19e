"""Time and peak memory of every layer and mode over the length, beside a materialised S4D, in one run.

The baseline is what a first implementation does: all modes at all times in one complex tensor, then an FFT. On a CPU
each case runs in a process of its own, so that the peak of resident memory is that of the case.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wellposed.nn import S4, S4D, S4PTD, S5, S5PTD, LiquidS4
from wellposed.records import provenance

BATCH, CHANNELS, STATES = 4, 64, 64
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
LAYERS: dict[str, Callable[..., Any]] = {
    "s4d": S4D,
    "s4ptd": S4PTD,
    "s4": S4,
    "s5": S5,
    "s5ptd": S5PTD,
    "liquid-s4": LiquidS4,
    "liquid-s4-kb": partial(LiquidS4, kernel="kb"),
}
CASES = ("baseline", *(f"{name} {mode}" for name in LAYERS for mode in ("scan", "conv")))


class Materialised(nn.Module):
    """S4D with its Vandermonde matrix written out: channels x modes x length complex numbers."""

    def __init__(self, channels: int, states: int) -> None:
        super().__init__()
        modes = states // 2
        self.log_dt = nn.Parameter(torch.rand(channels) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.A_log_real = nn.Parameter(torch.full((channels, modes), math.log(0.5)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(modes).repeat(channels, 1))
        self.C = nn.Parameter(torch.randn(channels, modes, 2))
        self.D = nn.Parameter(torch.randn(channels))

    def forward(self, u: Tensor) -> Tensor:
        """Kernel, then convolution."""
        length = u.shape[1]
        A = torch.complex(-self.A_log_real.exp(), self.A_imag)
        z = A * self.log_dt.exp()[:, None]
        C = torch.view_as_complex(self.C) * (z.exp() - 1) / A
        vandermonde = (z[..., None] * torch.arange(length, device=u.device)).exp()
        kernel = 2 * torch.einsum("hn,hnl->hl", C, vandermonde).real
        size = 2 * length
        x = u.transpose(1, 2)
        y = torch.fft.irfft(torch.fft.rfft(x, n=size) * torch.fft.rfft(kernel, n=size), n=size)[..., :length]
        return y.transpose(1, 2) + self.D * u


def build(case: str) -> nn.Module:
    """A layer in one of its modes, or the baseline."""
    torch.manual_seed(0)
    if case == "baseline":
        return Materialised(CHANNELS, STATES)
    name, mode = case.split()
    return LAYERS[name](CHANNELS, STATES, mode=mode)


def measure(case: str, length: int, device: str, repeat: int) -> dict[str, Any]:
    """Best seconds of a forward and of a forward with backward, and the peak of memory."""
    layer, cuda = build(case).to(device), device == "cuda"
    u = torch.randn(BATCH, length, CHANNELS, device=device, requires_grad=True)
    forward, both = [], []
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(repeat + 1):  # the first warms up
        start = _now(cuda)
        y = layer(u)
        middle = _now(cuda)
        y.sum().backward()
        end = _now(cuda)
        forward.append(middle - start)
        both.append(end - start)
        layer.zero_grad()
        u.grad = None
        del y
    peak = torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = {"case": case, "length": length, "forward": min(forward[1:]), "both": min(both[1:]), "bytes": peak}
    return row | {"device": device}


def _now(cuda: bool) -> float:
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def measure_apart(case: str, length: int, repeat: int) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", case, "--length", str(length), "--repeat", str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure_steps(name: str, device: str, steps: int = 200) -> dict[str, Any]:
    """Microseconds a streaming step takes, plain and with constants computed once."""
    torch.manual_seed(0)
    layer = LAYERS[name](CHANNELS, STATES).to(device)
    u, cuda = torch.randn(BATCH, CHANNELS, device=device), device == "cuda"
    row: dict[str, Any] = {"layer": name, "device": device}
    with torch.no_grad():
        for key, step in (("step", layer.step), ("stepper", layer.stepper())):
            state = layer.initial_state(BATCH)
            _, state = step(u, state)
            start = _now(cuda)
            for _ in range(steps):
                _, state = step(u, state)
            row[key] = 1e6 * (_now(cuda) - start) / steps
    return row


def table(rows: list[dict[str, Any]]) -> None:
    """Print every row with its ratio to the baseline of the same length, and how many times S4D's scan it takes."""
    base = {row["length"]: row for row in rows if row["case"] == "baseline"}
    s4d = {row["length"]: row["both"] for row in rows if row["case"] == "s4d scan"}
    print(
        f"{'case':17} {'length':>7} {'forward':>10} {'+ backward':>11} {'peak MiB':>9} {'/ S4D':>6}"
        "   baseline / this: time, memory"
    )
    for row in rows:
        b = base.get(row["length"])
        times = f"{row['both'] / s4d[row['length']]:6.2f}" if row["length"] in s4d else " " * 6
        ratio = "" if b is None else f"{b['both'] / row['both']:8.1f} {b['bytes'] / row['bytes']:8.1f}"
        numbers = f"{1e3 * row['forward']:7.1f} ms {1e3 * row['both']:8.1f} ms {row['bytes'] / 2**20:9.0f} {times}"
        print(f"{row['case']:17} {row['length']:7} {numbers}   {ratio}")


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and memory over the length, baseline and layers."""
    from wellposed.report._style import S4 as GREY
    from wellposed.report._style import S4D as WARM
    from wellposed.report._style import SHADES, THIRD, WIDTH, pyplot, standalone, to_svg

    styles = {"baseline": ("s--", WARM, "S4D, materialised"), "s4d scan": ("o-", SHADES[1], "S4D")}
    styles |= {"s4ptd scan": ("o-", THIRD, "S4-PTD"), "s5ptd scan": ("o-", SHADES[3], "S5-PTD")}
    styles |= {"s4 scan": ("o-", GREY, "S4")}
    figure, (top, bottom) = pyplot().subplots(2, 1, figsize=(WIDTH, 6.4), sharex=True)
    for case, (style, color, label) in styles.items():
        mine = [row for row in rows if row["case"] == case]
        length = [row["length"] for row in mine]
        top.loglog(length, [row["both"] for row in mine], style, color=color, ms=4, label=label)
        bottom.loglog(length, [row["bytes"] / 2**20 for row in mine], style, color=color, ms=4)
    top.set_title("Seconds, forward and backward", loc="left")
    bottom.set_title("Peak memory of the process, MiB", loc="left")
    bottom.set(
        xlabel="length of the sequence", xticks=[1024, 4096, 16384, 65536], xticklabels=["1k", "4k", "16k", "64k"]
    )
    bottom.minorticks_off()
    bottom.set_yticks([500, 1000, 2000, 4000], ["500", "1000", "2000", "4000"])
    top.legend(fontsize=9.5)
    path.write_text(standalone(to_svg(figure, "layers")), encoding="utf-8")


def main() -> None:
    """Print the table; with --record, keep it; with --plot, draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--record", type=Path, help="write the table and its provenance to this JSON file")
    parser.add_argument("--plot", type=Path, help="draw time and memory to this SVG file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.length, "cpu", options.repeat)))
        return
    start, rows = time.perf_counter(), []
    for length in options.lengths:
        for case in options.cases:
            if options.device == "cpu":
                rows.append(measure_apart(case, length, options.repeat))
            else:
                rows.append(measure(case, length, options.device, options.repeat))
    table(rows)
    steps = [measure_steps(name, options.device) for name in LAYERS]
    for row in steps:
        print(f"{row['layer']:15} step {row['step']:7.0f} us, stepper {row['stepper']:7.0f} us")
    if options.plot:
        plot(rows, options.plot)
    if options.record:
        sizes = {"batch": BATCH, "d_model": CHANNELS, "d_state": STATES}
        made_by = provenance("python benchmarks/layers.py", time.perf_counter() - start, seed=0)
        record = {"sizes": sizes, "rows": rows, "steps": steps, "provenance": made_by}
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
