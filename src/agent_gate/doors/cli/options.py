"""Options that several commands share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from agent_gate.model.ledger_names import DEFAULT_LEDGER, LEDGER_VARIABLE

if TYPE_CHECKING:
    from typer._click import Context

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Db = Annotated[str, typer.Option("--db", metavar="PATH", envvar=LEDGER_VARIABLE, help="The ledger.")]
Project = Annotated[str, typer.Option("--project", metavar="NAME", help="The project.")]
PolicyPath = Annotated[Path, typer.Option("-p", "--policy", metavar="FILE", help="The policy.")]
ServicesOf = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config", metavar="FILE", help="Whose services and chains.outbound to use; no other section is needed."
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most so many.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")]

DEFAULT_DB = DEFAULT_LEDGER


class HelpfulGroup(TyperGroup):
    """Says what it can do when nothing is asked of it."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])


def commands(help: str = "") -> typer.Typer:  # noqa: A002 -- Typer's own word
    """The commands of one module: plain help, our own words for errors."""
    settings: dict[str, Any] = {"help": help} if help else {}
    return typer.Typer(
        cls=HelpfulGroup,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def examples(*lines: str) -> str:
    """The closing part of a help text, each example on its own line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
