"""Declares one setting of a file that people write: everything about it, where its field stands.

A section of a file is a frozen dataclass, and a setting is a field of it:

    port: Annotated[int, Setting("the port, such as 8443", minimum=0, maximum=65535)]

The type says what the value is, the default what it is where the file is silent (a field without a default must be
given), `Setting` the rest. JSON Schema, the value that is built and the reference page are made from this
(`config/json_schema.py`, `config/build.py`, `docs/reference/settings.py`); nothing else repeats it. Leave
`from __future__ import annotations` out of a file that declares many, and give its classes docstrings: reading types
back from their text takes 1 ms at every start, and `dataclass` writes a missing docstring from all of them in 10 ms.

Several settings in one `Annotated` are one, the later winning, so that a kind of text has a name:

    Identifier = Annotated[str, Setting(pattern="^[a-z]+$", form="an id: letters")]
    owner: Annotated[Identifier, Setting("who may not approve its calls")] = ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def _declaring(cls: type[T]) -> type[T]:
    """Let type checkers read the arguments off the fields; a real dataclass of so many takes 2 ms at every start."""
    return cls


@_declaring
class Setting:
    """One setting; what is not given does not count."""

    about: str = ""
    """A noun phrase for it, as the reference says it, which also reads well after `missing; write`."""
    remedy: str = ""
    """Advice where it is missing, if `write …` does not say it well."""
    form: str = ""
    """The thing that `pattern` or `names` asks for, as it reads after `is not`."""

    only: str | int | None = None
    """The one value that there is."""
    choices: tuple[str, ...] = ()
    """The values that there are, where the type is not already a `Literal` or an enum of them."""
    pattern: str = ""
    min_length: int | None = None
    max_length: int | None = None
    minimum: int | None = None
    above: int | None = None
    maximum: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique: bool = False
    names: str = ""
    """The pattern of the names in a mapping."""
    max_names: int | None = None
    not_empty: bool = False
    """A mapping without a single field says nothing, and is refused."""

    secret: bool = False
    """Neither shown in a message nor in a `repr`; so is what stands in its place."""
    from_text: bool = False
    """Digits in quotes are a number here, as in files that had it from the environment."""
    needed: bool | None = None
    """True: the file must say it, although the class has a default; False: it need not, although there is none."""
    partial: bool = False
    """No field of this section must be given, and those that are stay a mapping, for `made` of what is around it."""
    leaves_out: tuple[str, ...] = ()
    """Fields of this section that only programs have."""

    order: int = 0
    """Fields with a smaller number are named first, where a file is read in another order than the class."""
    at: tuple[str, ...] = ()
    """Its place in the file, if not under its own name: keys from the section around it."""
    flat: bool = False
    """Its fields stand among those of the section around it."""
    shape: Any = None
    """The type in the file, if it is another than in the program."""
    made: Callable[[Any], Any] | None = None
    """Makes the value from what `shape` (or the type) gives."""

    if not TYPE_CHECKING:

        def __init__(self, about="", **said):
            assert said.keys() <= Setting.__annotations__.keys(), said
            vars(self).update(said, **({"about": about} if about else {}))

    def over(self, other: Setting) -> Setting:
        """Both as one; where both speak, this one counts."""
        return Setting(**{**vars(other), **vars(self)}) if vars(self) else other


NOTHING = Setting()
"""A setting of which nothing is said."""


class Sections:
    """`shape=Sections`: a mapping whose names each bring a section of their own, known where the file is loaded.

    Under `tools:` of a policy the names are tools: see `Section` of `model/tool.py`.
    """
