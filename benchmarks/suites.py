"""The suites of kernels and layers on this machine's GPU, and a record of what passed.

    python benchmarks/suites.py --record results/tests-gpu-h200.json
    python benchmarks/suites.py tests/kernels/gpu -m "not slow"

Whatever is not an option of this script goes to pytest. Several processes share the tests, for most of the time
goes into compiling kernels, on the host.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import Any

from wellposed.records import provenance

ROOT = Path(__file__).parents[1]
SUITES = ("tests/kernels", "tests/nn", "tests/train/test_graph.py")
ELSEWHERE = (  # they compile for a card that is not there, and for a CPU
    "tests/kernels/gpu/test_offline.py",
    "tests/nn/test_ecosystem.py",
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ENVIRONMENT = os.environ | {"WELLPOSED_TEST_DEVICE": "cuda"}
AT_MOST = 40


def collected(paths: list[str], options: list[str]) -> list[list[str]]:
    """Tests below these, in groups of one file each and of at most so many."""
    command = [*PYTEST, "--collect-only", *paths, *options]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    by_file = [list(group) for _, group in groupby(tests, key=_file)]
    return [group[k : k + AT_MOST] for group in by_file for k in range(0, len(group), AT_MOST)]


def run(tests: list[str], options: list[str], limit: float | None) -> dict[str, Any]:
    """What became of tests of a file, and which of them failed."""
    start, file = time.perf_counter(), _file(tests[0])
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [*PYTEST, f"--junitxml={report}", *tests, *options]
        try:
            subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"file": file, "failed": [f"{tests[0]} to {tests[-1]}: not done after {limit:.0f} s"]}
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []
    row: dict[str, Any] = {"file": file, **Counter(map(outcome, cases))}
    row["failed"] = [f"{case.get('name')}: {_why(case)}" for case in cases if outcome(case) == "failures"]
    if len(cases) < len(tests):
        row["failed"].append(f"{len(tests) - len(cases)} of {tests[0]} to {tests[-1]} left no report")
    return row | {"seconds": round(time.perf_counter() - start, 1)}


def _file(test: str) -> str:
    return test.partition("::")[0]


def outcome(case: ET.Element) -> str:
    """``"passed"``, ``"skipped"`` or ``"failures"``."""
    kinds = {child.tag for child in case}
    return "skipped" if "skipped" in kinds else "failures" if kinds & {"failure", "error"} else "passed"


def _why(case: ET.Element) -> str:
    problem = next(child for child in case if child.tag in ("failure", "error"))
    return (problem.get("message") or "").splitlines()[0][:300]


def main() -> None:
    """Run, print a line for each file, and with --record keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=list(SUITES))
    parser.add_argument("--record", type=Path, help="write the rows and their provenance to this JSON file")
    parser.add_argument("--at-once", type=int, default=8, help="processes at a time")
    parser.add_argument("--limit", type=float, help="seconds for one of them")
    options, more = parser.parse_known_args()
    start, command = time.perf_counter(), " ".join(["python benchmarks/suites.py", *sys.argv[1:]])
    more += [f"--ignore={file}" for file in ELSEWHERE]
    rows, groups = [], collected(options.paths, more)
    with ThreadPoolExecutor(options.at_once) as pool:
        for done in as_completed(pool.submit(run, tests, more, options.limit) for tests in groups):
            rows.append(row := done.result())
            counts = ", ".join(f"{row[kind]} {kind}" for kind in ("passed", "skipped", "failures") if kind in row)
            print(
                f"{row.get('seconds', options.limit):7.1f} s  {row['file']}: {counts or row['failed']}",
                *row["failed"],
                sep="\n    ",
                flush=True,
            )
            if options.record:
                made = provenance(command, time.perf_counter() - start)
                options.record.write_text(
                    json.dumps({"rows": sorted(rows, key=lambda r: r["file"]), "provenance": made}, indent=1) + "\n",
                    encoding="utf-8",
                )
    sys.exit(any(row["failed"] for row in rows))


if __name__ == "__main__":
    main()
