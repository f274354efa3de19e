"""The suites of kernels and layers on this machine's GPU, and a record of what passed.

    python benchmarks/suites.py --record results/tests-gpu-h200.json
    python benchmarks/suites.py tests/kernels/gpu -m "not slow"

Whatever is not an option of this script goes to pytest. Several processes share the files, for most of the time goes
into compiling kernels, on the host.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wellposed.records import provenance

ROOT = Path(__file__).parents[1]
SUITES = ("tests/kernels", "tests/nn", "tests/train/test_graph.py")


def files(paths: list[str]) -> list[str]:
    """Test files below these, the largest first."""
    found = [
        f for path in paths for f in (sorted(Path(path).rglob("test_*.py")) if Path(path).is_dir() else [Path(path)])
    ]
    return [str(f) for f in sorted(found, key=lambda f: -f.stat().st_size)]


def run(file: str, options: list[str], limit: float | None) -> dict[str, Any]:
    """What became of the tests of a file, and which of them failed."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            file,
            *options,
        ]
        environment = os.environ | {"WELLPOSED_TEST_DEVICE": "cuda"}
        try:
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"file": file, "failed": [f"not done after {limit:.0f} s"], "seconds": limit}
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []
    row: dict[str, Any] = {"file": file, **Counter(map(outcome, cases))}
    row["failed"] = [f"{case.get('name')}: {_why(case)}" for case in cases if outcome(case) == "failures"]
    return row | {"seconds": round(time.perf_counter() - start, 1)}


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
    parser.add_argument("--at-once", type=int, default=8, help="files at a time")
    parser.add_argument("--limit", type=float, help="seconds for a file")
    options, more = parser.parse_known_args()
    start, command = time.perf_counter(), " ".join(["python benchmarks/suites.py", *sys.argv[1:]])
    rows = []
    with ThreadPoolExecutor(options.at_once) as pool:
        for row in pool.map(lambda file: run(file, more, options.limit), files(options.paths)):
            rows.append(row)
            counts = ", ".join(f"{row[kind]} {kind}" for kind in ("passed", "skipped", "failures") if kind in row)
            print(f"{row['seconds']:7.1f} s  {row['file']}: {counts or row['failed']}", *row["failed"], sep="\n    ")
            if options.record:
                made = provenance(command, time.perf_counter() - start)
                options.record.write_text(
                    json.dumps({"rows": rows, "provenance": made}, indent=1) + "\n", encoding="utf-8"
                )
    sys.exit(any(row["failed"] for row in rows))


if __name__ == "__main__":
    main()
