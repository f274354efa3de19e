"""Data made part by part, in parallel; after an interruption the parts that are there are kept."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from wellposed._files import replace_whole
from wellposed.data.store._builder import Builder

Part = dict[str, np.ndarray]


def make_parts(out: Builder, what: str, count: int, make: Callable[[int], Part]) -> list[Callable[[], Part]]:
    """Run ``make(0) ... make(count - 1)`` on all cores and keep the results on disk; each is read when called.

    ``make`` must release the interpreter's lock to gain from several cores, as compiled loops do, and must depend on
    its argument alone: a part found on disk is taken as it is.
    """
    paths = [out.scratch / f"{what}-{part:05d}.npz" for part in range(count)]
    missing = [part for part, path in enumerate(paths) if not _sound(path)]
    done = count - len(missing)
    out.step(what, done, count)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None) as pool:
        futures = [pool.submit(lambda part: _save(paths[part], make(part)), part) for part in missing]
        try:
            for future in as_completed(futures):
                future.result()
                done += 1
                out.step(what, done, count)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [lambda path=path: _read(path) for path in paths]


def _save(path: Path, part: Part) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **part)  # pyright: ignore[reportArgumentType]
    replace_whole(path, buffer.getvalue())


def _read(path: Path) -> Part:
    with np.load(path, allow_pickle=False) as part:
        return dict(part)


def _sound(path: Path) -> bool:
    """Whether it is there and its checksums hold."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False
