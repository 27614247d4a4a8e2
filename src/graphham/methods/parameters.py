"""Settings by name, as scikit-learn has them: declared once, stored, read and changed later."""

from __future__ import annotations

import difflib
import inspect
import numbers
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from graphham.errors import InputError

_Kind = TypeVar("_Kind")
_MOST_TEXT = 200  # of one setting in a representation; a loaded run has all of them


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def keyword_settings(cls: type[_Kind]) -> type[_Kind]:
    """Give a class the constructor that stores its annotated fields, by name only.

    A subclass declares what it adds and redeclares what has another default there; what a fit
    sets, and what the subclass does not let anyone choose, is ``field(init=False)``.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


class Parameters:
    """What stores the arguments of its constructor under their names and does nothing else."""

    name: ClassVar[str] = ""

    @classmethod
    def _settings(cls) -> dict[str, inspect.Parameter]:
        """Return the arguments of the constructor, the general ones first."""
        found: list[dict[str, inspect.Parameter]] = []
        for kind in cls.__mro__:
            if "__init__" not in vars(kind):
                continue
            own = dict(inspect.signature(vars(kind)["__init__"]).parameters)
            found.append({n: p for n, p in own.items() if p.kind is not p.VAR_KEYWORD})
            # A constructor written by hand may pass others on as **settings.
            if all(p.kind is not p.VAR_KEYWORD for p in own.values()):
                break
        return {n: p for one in reversed(found) for n, p in one.items() if n != "self"}

    @classmethod
    def setting_defaults(cls) -> dict[str, Any]:
        """Return every setting with its default, the general ones first."""
        return {name: p.default for name, p in cls._settings().items()}

    @classmethod
    def setting_kinds(cls) -> dict[str, str]:
        """Return what each setting may be, as its annotation says."""
        return {name: _text(p.annotation) for name, p in cls._settings().items()}

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of the settings."""
        return list(cls._settings())

    @classmethod
    def make(cls, **settings: Any) -> Self:
        """Return an object with the settings.

        Raises:
            InputError: There is no such setting, or it cannot have such a value.
        """
        kinds = cls.setting_kinds()
        for setting, value in settings.items():
            if setting not in kinds:
                near = difflib.get_close_matches(setting, kinds, n=1, cutoff=0.4)
                hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(kinds)}"
                raise InputError(f"the method {cls.name} has no setting {setting!r}; {hint}")
            if not _is_kind(value, kinds[setting]):
                kind = kinds[setting].replace(" | None", "")
                raise InputError(
                    f"the setting {setting} of {cls.name} must be {_KINDS.get(kind, kind)}, "
                    f"got {value!r}"
                )
        return cls(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self.setting_names()}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; return self."""
        for name, value in params.items():
            if name not in self.setting_names():
                raise InputError(
                    f"the method {self.name} has no setting {name!r}; "
                    f"it takes {', '.join(self.setting_names())}"
                )
            setattr(self, name, value)
        return self

    def _check_counts(self, *names: str, least: int = 1) -> None:
        """Refuse settings that are not whole numbers, or too small."""
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or int(value) < least:
                raise InputError(
                    f"{name} must be a whole number of at least {least}, got {value!r}"
                )

    def __repr__(self) -> str:
        defaults = self.setting_defaults()
        shown = ", ".join(
            f"{name}={_short(value)}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name])
        )
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    """Return a value as written, or the beginning and end of one that would fill the screen."""
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 20]}...{text[-17:]}"


def _text(annotation: Any) -> str:
    """Return an annotation as it was written, in a module with or without lazy annotations."""
    if isinstance(annotation, str):
        return annotation
    return inspect.formatannotation(annotation).replace("collections.abc.", "")


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "Sequence[int]": "a list of whole numbers",
}


def _is_kind(value: Any, kind: str) -> bool:
    """Tell whether a value is what an annotation asks for; what it does not know may be all."""
    if kind.endswith(" | None"):
        return value is None or _is_kind(value, kind.removesuffix(" | None"))
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "float"):
        if isinstance(value, bool) or value != value:
            return False
        return isinstance(value, numbers.Integral if kind == "int" else numbers.Real)
    if kind == "str":
        return isinstance(value, str)
    if kind == "Sequence[int]":
        return isinstance(value, Iterable) and all(_is_kind(item, "int") for item in value)
    return True
