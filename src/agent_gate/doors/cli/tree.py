"""The tree of commands; its branches are loaded when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from agent_gate import __version__
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.catalogue import COMMANDS, SECTIONS
from agent_gate.doors.cli.options import HelpfulGroup

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


class LazyGroup(HelpfulGroup):
    """Group that knows its commands by name and summary, and imports one when it is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # The names are what typing errors are compared with; the values are never looked at.
        self.commands = dict.fromkeys(COMMANDS, self)

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 -- Typer's signature
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002 -- Typer's signature
        if cmd_name not in COMMANDS:
            return None
        loaded = get_command(import_module(f"{__package__}.{COMMANDS[cmd_name].module}").app)
        # A module with several commands is a group of them, and so is a command with others below it.
        command = loaded.commands.get(cmd_name, loaded) if isinstance(loaded, HelpfulGroup) else loaded
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 -- Typer's signature
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, command.summary) for name, command in commands.items()])


def _print_version(wanted: bool) -> None:
    if wanted:
        screen.say(f"agent-gate {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The one gate between AI agents and everything they can touch."""


def root() -> Command:
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Start with `agent-gate init`. Exit codes: 0 success, 1 denied, 2 usage, 3 error,"
        " 4 approval pending or expired, 5 cannot connect, 6 verification found a mismatch.",
    )
    app.callback()(_options)
    return get_command(app)
