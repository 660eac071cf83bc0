# SPDX-License-Identifier: GPL-2.0
"""Data files as frozen dataclasses, checked by pydantic.

A dataclass that inherits Table describes a TOML table.  Its fields are the keys, their types define the
allowed values, and rules() checks that the values fit together.  read() makes such an object from parsed
TOML.  An error is one line with the file, the key, its value and the allowed values:

    geo.toml: flow[0].bytes = -5: a whole number from 0 to 1000000000000
"""

import dataclasses
import functools
import json
import re
import tomllib
from pathlib import Path

import pydantic
from pydantic.error_wrappers import ErrorWrapper

from ..errors import LabError

SHOWN_CHARACTERS = 60           # of a wrong value in a message


class NotAllowed(pydantic.PydanticValueError):
    code = "not_allowed"
    msg_template = "{allowed}"


class _Config(pydantic.BaseConfig):
    arbitrary_types_allowed = True
    error_msg_templates = {
        "value_error.missing": "missing", "type_error.dict": "a table",
        "value_error.strictbool": "true or false",
        "type_error.list": "a list; of tables, [[...]]",
        "type_error.tuple": "a list; of tables, [[...]]",
        "value_error.tuple.length": "a list of {expected_length}",
        "value_error.list.min_items": "at least {limit_value} of them", "type_error.str": "text"}


# ---- values ----------------------------------------------------------------

def allowed(description: str, fits, **about) -> type:
    """A field's type: the values for which `fits` returns true.

    description: the allowed values, for messages.
    about: attributes of the type, for tests.
    """
    def checked(value):
        if not fits(value):
            raise NotAllowed(allowed=description, given=value)
        return value

    return type("Allowed", (), {"__get_validators__": classmethod(lambda cls: iter([checked])), **about})


def whole(low: int, high: int) -> type:
    return allowed(f"a whole number from {low} to {high}",
                   lambda value: type(value) is int and low <= value <= high,
                   low=low, high=high, whole=True)


def real(low: float, high: float) -> type:
    """A number; an integer stays an integer, since job scripts print the value in the file."""
    return allowed(f"a number from {low:.15g} to {high:.15g}", low=low, high=high,
                   fits=lambda value: type(value) in (int, float) and low <= value <= high)


def one_of(*words: str) -> type:
    return allowed(f"one of {', '.join(map(json.dumps, words))}",
                   lambda value: isinstance(value, str) and value in words, words=words)


def text(description: str, pattern: str) -> type:
    return allowed(description,
                   lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value, re.ASCII)),
                   pattern=pattern)


def mapping(key: type, value: type) -> type:
    """A table with any keys of a type.  (pydantic's own dict would accept a list of pairs.)"""
    model = pydantic.create_model("Mapping", __config__=_Config, __root__=(dict[key, value], ...))

    def checked(given):
        if not isinstance(given, dict):
            raise NotAllowed(allowed="a table", given=given)
        values, _, error = pydantic.validate_model(model, {"__root__": given})
        if error:
            raise error
        return values["__root__"]

    return type("Mapping", (), {"__get_validators__": classmethod(lambda cls: iter([checked]))})


def is_words(value: str) -> bool:
    """Text without characters that a shell interprets."""
    return bool(re.fullmatch(r"[\w .,:/+-]*", value, re.ASCII))


Flag = pydantic.StrictBool
Line = text("text on one line", r"[^\x00-\x1f\x7f\x85\u2028\u2029]*")
Command = allowed("a shell command", lambda value: isinstance(value, str) and bool(value.strip())
                  and "\0" not in value)
Name = text("at most 15 letters and digits", "[A-Za-z0-9]{1,15}")
# "": none.
CongestionControl = text("a congestion control's name: at most 15 letters, digits and _",
                         "[A-Za-z0-9_]{0,15}")


# ---- tables ----------------------------------------------------------------

def key(name: str, **field) -> dataclasses.Field:
    """A field that has another name in files."""
    return dataclasses.field(metadata={"key": name}, **field)


def computed(**field) -> dataclasses.Field:
    """A field that files cannot set."""
    return dataclasses.field(metadata={"computed": True}, **field)


class Table:
    """The base class of tables in data files."""

    def rules(self) -> None:
        """Check that the values fit together; raises ValueError if they do not."""

    @classmethod
    @functools.cache
    def model(cls) -> type[pydantic.BaseModel]:
        def entry(field):
            default = ... if field.default is field.default_factory else \
                pydantic.fields.Undefined if field.default is dataclasses.MISSING else field.default
            factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
            return field.type, pydantic.Field(default, default_factory=factory,
                                              alias=field.metadata.get("key"))

        return pydantic.create_model(cls.__name__, __config__=_Config, **{
            field.name: entry(field) for field in dataclasses.fields(cls)
            if "computed" not in field.metadata})

    @classmethod
    def keys(cls) -> list[str]:
        """The names of the keys in files."""
        return [field.alias for field in cls.model().__fields__.values()]

    @classmethod
    def __get_validators__(cls):
        yield cls.parse

    @classmethod
    def parse(cls, value):
        """A checked object from a TOML table, or from an object that code has made."""
        if isinstance(value, cls):
            value = value.non_defaults()
        if not isinstance(value, dict):
            raise NotAllowed(allowed="a table", given=value)
        model = cls.model()
        known = cls.keys()
        unknown = [key for key in value if key not in known]
        if unknown:
            error = NotAllowed(allowed=f"unknown key (known: {', '.join(sorted(known))})", given=value)
            raise pydantic.ValidationError([ErrorWrapper(error, unknown[0])], model)
        values, _, error = pydantic.validate_model(model, value)
        if error:
            raise error
        # pydantic checks a minimum length of lists only, and a frozen dataclass has tuples.
        parsed = cls(**{name: tuple(entry) if isinstance(entry, list) else entry
                        for name, entry in values.items()})
        parsed.rules()
        return parsed

    def non_defaults(self) -> dict:
        """Key in files -> value, for the values that are not defaults."""
        return {field.alias: getattr(self, name) for name, field in self.model().__fields__.items()
                if field.required or getattr(self, name) != field.get_default()}


def parse_below(key: str, kind: type[Table], value) -> Table:
    """For rules(): read the value of a key whose type depends on another key."""
    try:
        return kind.parse(value)
    except ValueError as error:
        raise pydantic.ValidationError([ErrorWrapper(error, key)], kind.model()) from None


# ---- files -----------------------------------------------------------------

def parsed(path: Path) -> dict:
    """A file's TOML as a dict.  Raises LabError if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(f"no file {path}") from None
    except UnicodeDecodeError as error:
        raise LabError(f"{path}: not UTF-8, at byte {error.start}") from None
    except (ValueError, RecursionError) as error:       # a number of 5000 digits, lists 1000 deep
        raise LabError(f"{path}: {error}") from None


def read(kind: type[Table], data, where: str, at: tuple = ()):
    """A table of `kind` from parsed TOML.  Raises LabError with `where` and the key.

    where: the file's name, for messages.
    at: the keys that lead to data in the file.
    """
    try:
        return kind.parse(data)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        loc, message = tuple(part for part in first["loc"] if part != "__root__"), first["msg"]
        if "__key__" in loc:
            loc = (*loc[:-1], first["ctx"]["given"])
    except ValueError as error:
        loc, message = (), str(error)
    path = path_text((*at, *loc)) + _shown(data, loc)
    raise LabError(": ".join(part for part in (where, path, message) if part))


def path_text(loc: tuple) -> str:
    """A key with the keys that lead to it, as in TOML, and list indexes as [number]."""
    parts = [f"[{part}]" if isinstance(part, int) else "." + toml_key(part) for part in loc]
    return "".join(parts).removeprefix(".")


def toml_key(part: str) -> str:
    return part if re.fullmatch(r"[\w-]+", part, re.ASCII) else json.dumps(part)


def _shown(data, loc: tuple) -> str:
    """The text ` = VALUE` for a message, with a shortened value, or ''."""
    for part in loc:
        data = data.non_defaults() if isinstance(data, Table) else data
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return ""
    shown = value_text(data)
    return f" = {shown}" if loc else ""


def value_text(value) -> str:
    shown = json.dumps(value, default=str)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS - 3] + "..."
