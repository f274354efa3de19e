"""``wellposed data show``."""

from __future__ import annotations

from rich.console import Console
from rich.progress import MofNCompleteColumn

from wellposed.cli._arguments import File, Folder
from wellposed.cli._progress import track_amounts
from wellposed.cli.data._arguments import Name, Options, parsed


def show(
    name: Name,
    root: Folder = None,
    split: str = "train",
    count: int = 8,
    seed: int = 0,
    out: File = None,
    options: Options = (),
) -> None:
    """Show a few samples of a task on the terminal, or draw them.

    Args:
        name: A task; 'wellposed data list' shows them.
        root: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        split: train, val or test.
        count: How many samples.
        seed: Which samples.
        out: Draw them to this file (.png, .svg or .pdf) instead.
        options: Parameters of the task, such as seed=1.
    """
    from wellposed import data
    from wellposed.data import Order
    from wellposed.report import check_figure_path, print_samples, save_samples

    chosen = data.task(name, **parsed(options))
    if out:
        check_figure_path(out)  # before a task is generated for a picture that cannot be saved
    with track_amounts(MofNCompleteColumn()) as told:
        data.prepare(chosen, root, progress=told)
    dataset = data.load(chosen, root, split)
    items = next(iter(Order(len(dataset), min(count, len(dataset)), seed=seed)))
    if out:
        print(f"figure: {save_samples(out, dataset, items)}")
    else:
        print(dataset)
        print_samples(Console(), dataset, items)
