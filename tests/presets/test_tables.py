"""The paper's tables of configurations, typed from the paper, against the presets; and what else recipes say."""

from __future__ import annotations

import pytest

from wellposed.errors import UnknownNameError
from wellposed.presets import PRESETS, lra_s4, lra_s4ptd_small, preset, scifar

# Table S4P: depth, features, norm, prenorm, dropout, lr, batch size, epochs, weight decay, range of dt.
S4P = {
    "listops": (8, 256, "BN", False, 0.0, 0.002, 50, 80, 0.05, (1e-3, 1e0)),
    "text": (6, 256, "BN", True, 0.0, 0.01, 16, 80, 0.05, (1e-3, 1e-1)),
    "retrieval": (6, 128, "BN", True, 0.0, 0.004, 64, 40, 0.03, (1e-3, 1e-1)),
    "image": (6, 128, "LN", False, 0.1, 0.01, 128, 2000, 0.01, (1e-3, 1e-1)),
    "pathfinder": (6, 512, "BN", True, 0.0, 0.004, 64, 300, 0.03, (1e-2, 1e0)),
    "pathx": (6, 128, "BN", True, 0.0, 0.001, 20, 100, 0.03, (1e-4, 1e-1)),
}
# Table S5P: depth, H, P, J, dropout, lr, SSM lr, batch size, epochs, weight decay.
S5P = {
    "listops": (8, 128, 16, 8, 0.0, 0.003, 0.001, 50, 35, 0.05),
    "text": (6, 256, 192, 12, 0.1, 0.004, 0.001, 50, 40, 0.07),
    "retrieval": (6, 128, 256, 16, 0.0, 0.002, 0.001, 32, 20, 0.05),
    "image": (6, 512, 384, 3, 0.1, 0.0055, 0.001, 50, 250, 0.07),
    "pathfinder": (6, 192, 256, 8, 0.05, 0.0045, 0.0009, 64, 230, 0.05),
    "pathx": (6, 128, 256, 16, 0.0, 0.0018, 0.0006, 32, 90, 0.06),
}
# Table LRA.
ACCURACIES = {
    "s4": (59.60, 86.82, 90.90, 88.65, 94.20, 96.35),
    "liquid-s4": (62.75, 89.02, 91.20, 89.50, 94.80, 96.66),
    "s4d": (60.47, 86.18, 89.46, 88.19, 93.06, 91.95),
    "s4ptd": (60.65, 88.32, 91.07, 88.27, 94.79, 96.39),
    "s5": (62.15, 89.31, 91.40, 88.00, 95.33, 98.58),
    "s5ptd": (62.75, 89.41, 91.51, 87.92, 95.54, 98.52),
}
SOME_ACCURACIES = {
    "h-transformer": (49.53, 78.69, 63.99, 46.05, 68.78, None),
    "luna": (37.25, 64.57, 79.29, 47.38, 77.72),
}
TASKS = tuple(S4P)


@pytest.mark.parametrize("task", TASKS)
def test_s4ptd_is_the_row_of_the_table(task: str):
    config = preset(f"lra-{task}-s4ptd")
    model, options = config.model, config.model["layer_options"]
    found = (
        model["n_layers"],
        model["d_model"],
        {"batch": "BN", "layer": "LN"}[model["norm"]],
        model["prenorm"],
        model["dropout"],
        config.optimizer.lr,
        config.data.batch_size,
        config.epochs,
        config.optimizer.weight_decay,
        (options["dt_min"], options["dt_max"]),
    )
    assert found == S4P[task]
    assert model["layer"] == "s4ptd"
    assert options["d_state"] == 64
    assert options["bidirectional"]
    assert options["rel"] <= 0.1  # section 5.1
    assert config.data.task == task


@pytest.mark.parametrize("task", TASKS)
def test_s5ptd_is_the_row_of_the_table(task: str):
    config = preset(f"lra-{task}-s5ptd")
    model, options, optimizer = config.model, config.model["layer_options"], config.optimizer
    found = (
        model["n_layers"],
        model["d_model"],
        options["d_state"],
        options["blocks"],
        model["dropout"],
        optimizer.lr,
        optimizer.ssm_lr,
        config.data.batch_size,
        config.epochs,
        optimizer.weight_decay,
    )
    assert found == S5P[task]
    assert model["layer"] == "s5ptd"
    assert options["bidirectional"]
    assert options["rel"] <= 0.1
    # Sizes of the blocks in the scripts.
    sizes = dict(zip(TASKS, (2, 16, 16, 128, 32, 16), strict=True))
    assert options["d_state"] // options["blocks"] == sizes[task]


@pytest.mark.parametrize("layer", ACCURACIES)
def test_accuracies_are_those_published(layer: str):
    assert tuple(PRESETS[f"lra-{task}-{layer}"].published for task in TASKS) == ACCURACIES[layer]


def test_accuracies_of_the_other_rows():
    for layer, accuracies in SOME_ACCURACIES.items():
        tasks = TASKS[: len(accuracies)]
        assert tuple(PRESETS[f"lra-{task}-{layer}"].published for task in tasks) == accuracies
    ccnn = ("listops", "text", "image", "pathfinder")
    assert [PRESETS[f"lra-{task}-ccnn"].published for task in ccnn] == [43.60, 84.08, 88.90, 91.51]
    tied = [PRESETS[f"lra-{task}-ccnn"]().model["tied_dropout"] for task in ccnn]
    assert tied == [False, False, True, True]  # their Dropout2d takes whole channels
    missing = {"lra-pathx-luna", "lra-retrieval-ccnn", "lra-pathx-ccnn"}  # nobody published a recipe
    assert missing.isdisjoint(PRESETS)


def test_the_benchmark_s_transformer_is_known_by_its_own_numbers():
    found = [PRESETS[f"lra-{task}-transformer"].published for task in TASKS]
    assert found == [36.37, 64.27, 57.46, 42.44, 71.40, None]


@pytest.mark.parametrize("name", ["lra-listops-transformer", "lra-text-h-transformer"])
def test_the_benchmark_s_transformer_is_jax_s(name: str):
    """GELU by tanh, and a weight decay of 0.1 that takes norms and biases along."""
    config = preset(name)
    assert config.model["activation"] == "gelu_tanh"
    assert (config.optimizer.weight_decay, config.optimizer.decay) == (0.1, "all")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lra-pathfinder-s4ptd", "256 features"),
        ("lra-text-s4ptd", "50,000 steps"),
        ("lra-image-s5ptd", "0.005"),
        ("lra-pathx-s5ptd", "halves it after epochs 30 and 60"),
        ("scifar-s4d", "A, B and dt stay as they start"),
        ("lra-text-liquid-s4", "recipe of S4"),
        ("lra-text-transformer", "1e-9"),
        ("lra-text-h-transformer", "the authors' are not published"),
        ("lra-text-ccnn-small", "without the penalty of 1e-05"),
    ],
)
def test_where_a_preset_differs_it_says_so(name: str, words: str):
    assert words in preset(name).note


@pytest.mark.parametrize("task", TASKS)
def test_compared_models_share_what_they_share_in_their_papers(task: str):
    s4, s4d, liquid = (preset(f"lra-{task}-{layer}") for layer in ("s4", "s4d", "liquid-s4"))
    for other in (s4d, liquid):
        assert (other.optimizer, other.schedule, other.epochs, other.seed) == (
            s4.optimizer,
            s4.schedule,
            s4.epochs,
            s4.seed,
        )
        assert other.model["d_model"] == s4.model["d_model"]
    s5, s5ptd = (preset(f"lra-{task}-{layer}") for layer in ("s5", "s5ptd"))
    assert s5.optimizer.ssm == s5ptd.optimizer.ssm
    assert {**s5.model["layer_options"], "rel": 0.1} == s5ptd.model["layer_options"]


def test_groups_of_s5_are_those_of_its_scripts():
    slow = {task: preset(f"lra-{task}-s5").optimizer.ssm for task in TASKS}
    eigenvalues = ("A_log_real", "A_imag")
    assert slow["listops"] == slow["image"] == (*eigenvalues, "log_dt")  # B fast and decaying
    assert slow["text"] == slow["retrieval"] == (*eigenvalues, "B")  # dt_global
    assert slow["pathfinder"] == slow["pathx"] == (*eigenvalues, "B", "log_dt")


@pytest.mark.parametrize("layer", ["s4d", "s4ptd", "s5", "s5ptd"])
def test_the_robustness_test_is_that_of_the_script(layer: str):
    config = preset(f"scifar-{layer}")
    model, optimizer = config.model, config.optimizer
    assert (model["n_layers"], model["d_model"], config.data.batch_size, config.epochs) == (4, 128, 64, 50)
    assert model["layer_options"]["d_state"] // model["layer_options"].get("blocks", 1) == 32
    assert (optimizer.lr, optimizer.ssm_lr, optimizer.weight_decay, model["dropout"]) == (0.01, 0.001, 0.01, 0.1)
    assert config.data.options["colour"] == "rgb"
    assert optimizer.frozen == ("A_log_real", "A_imag", "B", "log_dt")
    assert model["residual"] is False
    grey = preset(f"scifar-grey-{layer}")
    assert grey.data.options["colour"] == "grey"
    assert grey.optimizer.frozen == ()
    assert grey.model.get("residual", True)


def test_the_ablation_varies_the_perturbation_alone():
    names = [name for name in PRESETS if name.startswith("scifar-ablation-")]
    configs = [preset(name) for name in names]
    sizes = [config.model["layer_options"]["rel"] for config in configs]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (1e-7, 0.2)
    assert {config.epochs for config in configs} == {200}
    assert len({str({**config.model, "layer_options": None}) for config in configs}) == 1


def test_names_that_are_not_there_get_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'lra-listops-s4ptd'"):
        preset("lra-listop-s4ptd")
    with pytest.raises(UnknownNameError, match="did you mean 'tiny-lra-listops-s4ptd'"):
        preset("tiny-lra-listop-s4ptd")
    with pytest.raises(UnknownNameError, match="known: listops, pathfinder, pathx, text"):
        lra_s4ptd_small("retrieval")
    with pytest.raises(UnknownNameError, match="unknown task of this table 'imge'; did you mean 'image'"):
        lra_s4("imge")
    with pytest.raises(UnknownNameError, match="unknown layer of this experiment 's6'"):
        scifar("s6")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_what_it_is(name: str):
    config = PRESETS[name]()
    assert config.name == name
    assert PRESETS[name].about
    assert type(config).from_dict(config.to_dict()) == config


def test_pixels_of_pathfinder_are_scaled_as_each_code_has_them():
    """From -1 to 1 in S5's and in S4's older one, from 0 to 1 in S4's newer one."""
    names = [f"lra-{task}-{layer}" for task in ("pathfinder", "pathx") for layer in ("s5", "s5ptd", "s4d", "s4")]
    assert {preset(name).data.normalize for name in names} == {(0.5, 0.5)}
    assert preset("lra-pathfinder-s4ptd").data.normalize is lra_s4("pathfinder", "v4").data.normalize is None
    assert preset("lra-image-s5").data.normalize is None
