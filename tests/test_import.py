from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest

import wellposed
from subprocesses import run_python

OPTIONAL = [
    "lightning_fabric",
    "tyro",
    "rich",
    "matplotlib",
    "jinja2",
    "control",
    "pydantic",
    "pytorch_lightning",
    "numba",
    "PIL",
]
FOR_TESTS = ["mpmath", "hypothesis", "beartype", "pytest"]
MODULES = [
    wellposed,
    *(importlib.import_module(m.name) for m in pkgutil.walk_packages(wellposed.__path__, "wellposed.")),
]
PUBLIC = [module for module in MODULES if hasattr(module, "__all__")]


def test_import_needs_no_optional_package():
    run_python(
        f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL + FOR_TESTS}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Refuse())
import wellposed
import wellposed.data
import wellposed.train
from wellposed.systems import linf_distance, s4, s4d, spikes
assert round(linf_distance(s4(16), s4d(16)).value, 6) == 0.451561
assert len(spikes(32)) == 14
s4d(8).discretize(0.1, "zoh").simulate([1.0, 2.0, 3.0])
""",
        fresh=True,
    )


def documented(thing: Any) -> bool:
    return bool((inspect.getdoc(thing) or "").strip())


def fully_annotated(function: Any) -> bool:
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    returns = signature.return_annotation is not inspect.Signature.empty
    return returns and all(p.annotation is not inspect.Parameter.empty for p in parameters)


def own_methods(cls: type) -> list[tuple[str, Any]]:
    """Public methods and properties that a class of this library defines, or inherits from another one."""
    found = []
    for name, member in inspect.getmembers(cls):
        owner = next((c for c in cls.__mro__ if name in vars(c)), cls)
        if name.startswith("_") or not owner.__module__.startswith("wellposed"):
            continue
        if isinstance(member, property | cached_property):
            found.append((name, member.fget if isinstance(member, property) else member.func))
        elif inspect.isroutine(member):
            found.append((name, member))
    return found


def test_every_package_lists_its_names():
    packages = {module.__name__ for module in MODULES if hasattr(module, "__path__")}
    assert packages <= {module.__name__ for module in PUBLIC}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda m: m.__name__)
def test_public_names_exist_and_explain_themselves(module: ModuleType):
    assert documented(module)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing):
            assert documented(thing), name
            for method, function in own_methods(thing):
                assert documented(function), f"{name}.{method}"
                assert fully_annotated(function), f"{name}.{method}"
            if thing.__init__ is not object.__init__ and not issubclass(thing, tuple | dict):
                assert fully_annotated(thing.__init__), name
        elif inspect.isroutine(thing):
            assert documented(thing), name
            assert fully_annotated(thing), name
        elif isinstance(thing, ModuleType):
            assert documented(thing), name
