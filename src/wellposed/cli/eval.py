"""``wellposed eval``."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro

from wellposed.cli._arguments import Folder, Number
from wellposed.errors import ArgumentError


def evaluate(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    data: Folder = None,
    split: str = "test",
    noise: Literal["none", "layer", "input"] = "none",
    frequency: Number = None,
    amplitude: Number = None,
    seed: int = 0,
    batch_size: int = 64,
    device: Annotated[str | None, tyro.conf.arg(metavar="DEVICE")] = None,
) -> None:
    """Measure a trained model on a split of its task, as it is or with a cosine added to it.

    Args:
        run: Name of a run in runs/, or its folder.
        data: The data folder; $WELLPOSED_DATA or ~/.cache/wellposed/data if not given.
        split: train, val or test; seen or unseen of sinusoids.
        noise: layer adds it to the input of every layer, input to that of the model.
        frequency: Of the noise; where S4D has its last spike if not given.
        amplitude: Of the noise; 0.1 if not given.
        seed: Of the noise.
        batch_size: Sequences at a time.
        device: cpu or cuda; a GPU if there is one.
    """
    from wellposed import train
    from wellposed.nn import fourier_noise
    from wellposed.presets.command import run_folder, shown

    if noise == "none" and not (frequency is amplitude is None):
        raise ArgumentError("frequency and amplitude are those of a noise: add --noise layer, or --noise input")
    place = run_folder(run)
    assert place is not None
    added = None
    if noise != "none":
        added = fourier_noise(noise, frequency=frequency, amplitude=0.1 if amplitude is None else amplitude, seed=seed)
    found = train.evaluate(place, split, noise=added, batch_size=batch_size, data=data, device=device)
    words = "" if added is None else f" with noise on the {noise}, amplitude {added.amplitude:g}"
    print(f"{place}, {split}{words}")
    for name, value in found.items():
        print(f"  {name:12} {shown(name, value)}")
