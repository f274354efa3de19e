"""Lets the API pages show the arguments of a constructor that takes the fields of a config (``@built_from``)."""

from __future__ import annotations

from typing import Any

from griffe import Class, DataclassesExtension, Extension, Function, Module, Parameter, ParameterKind, Parameters


class Signatures(Extension):
    """Without this, ``S4PTD`` would be shown with the one argument ``config``."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Called when all modules have been read. Constructors of dataclasses, made by griffe, are needed first."""
        DataclassesExtension().on_package(pkg=pkg, **kwargs)
        self._visit(pkg)

    def _visit(self, obj: Any) -> None:
        for member in list(obj.members.values()):
            if member.is_alias:
                continue
            if isinstance(member, Class):
                self._spell_out(member)
            if isinstance(member, Class | Module):
                self._visit(member)

    def _spell_out(self, cls: Class) -> None:
        init = cls.members.get("__init__")
        if not isinstance(init, Function):
            return
        for decorator in init.decorators:
            name, _, rest = str(decorator.value).partition("(")
            if name == "built_from":
                config = cls.module[rest.rstrip(")")]
                own = init.parameters["self"]
                init.parameters = Parameters(own, *self._fields(config))

    def _fields(self, config: Class) -> list[Parameter]:
        """By place first; griffe overlooks a field that takes ``kw_only=False`` for itself."""
        fields = [p for p in config.parameters if p.name != "self"]
        for field in fields:
            if "kw_only=False" in str(config.all_members[field.name].value):
                field.kind = ParameterKind.positional_or_keyword
        return sorted(fields, key=lambda field: field.kind is ParameterKind.keyword_only)
