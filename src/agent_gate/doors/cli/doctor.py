"""`agent-gate doctor`: looks if this machine, its settings and its ledger are fit for work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.chain.configured import check_chains
from agent_gate.config import HomeAssistantConfig, load_config, load_policy
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.doctor_machine import machine_rows
from agent_gate.doors.cli.ledgers import database_path
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.cli.screen import count
from agent_gate.doors.codes import Exit
from agent_gate.history.archive import open_archive
from agent_gate.model.diagnosis import FAIL, OK, WARN, Diagnosis
from agent_gate.model.errors import ConfigError, GateError, StorageError
from agent_gate.model.policy import CommandGuard
from agent_gate.policy.guards.needs import unseen
from agent_gate.policy.guards.paths import PathRules
from agent_gate.resolve.programs import NotFound, find_program
from agent_gate.resolve.scripts import needs_of
from agent_gate.resolve.surroundings import look_around, real_directory
from agent_gate.services.contacts.seal import Seal
from agent_gate.services.home_assistant.credentials import HOW_TO_SET, resolve_token
from agent_gate.services.home_assistant.faults import AuthRefused
from agent_gate.services.home_assistant.looking import look_at
from agent_gate.system.clock import SystemClock

app = commands()

HOME, PROGRAMS = "home assistant", "programs"


@app.command(epilog=examples("agent-gate doctor", "agent-gate doctor --db /var/lib/gate/agent-gate.db --json"))
def doctor(
    db: Db = DEFAULT_DB,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="What to serve by; else config.yaml, if any.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("-p", "--policy", metavar="FILE", help="Whose programs to look for; else policy.yaml, if any."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Look at this machine, the configuration and the ledger, and say what to do.

    The home of the configuration and the programs of the policy are looked at too.
    The exit code is 3 where something fails.
    """
    archive = open_archive(database_path(db))
    with screen.working("looking around"):
        rows = [
            *machine_rows(archive.path.parent, archive.engine()),
            *config_rows(config),
            *home_rows(config),
            *program_rows(policy),
            *archive.diagnose(),
        ]
    is_fit = all(row.status != FAIL for row in rows)
    if as_json:
        screen.print_json({"ok": is_fit, "checks": [row.to_json() for row in rows]})
    else:
        screen.print_table(("", "what", "found"), [(row.status, row.name, row.found) for row in rows])
        advice = [(row.name, row.advice) for row in rows if row.advice]
        if advice:
            screen.say()
            screen.print_table(("what", "what to do"), advice)
    return Exit.SUCCESS if is_fit else Exit.ERROR


def config_rows(named: Path | None) -> Iterator[Diagnosis]:
    """Tell of each mistake; nothing where no file is named and none is there."""
    path = named or Path("config.yaml")
    if named is None and not path.exists():
        return
    try:
        config = load_config(path, check=partial(check_chains, clock=SystemClock()))
    except ConfigError as error:
        yield from (
            Diagnosis("config", FAIL, problem, "mend it: no server starts with it") for problem in error.problems
        )
        return
    chains = f", chains {', '.join(config.chains)}" if config.chains else ""
    people = f"{count(len(config.agents), 'agent')}, {count(len(config.approvers), 'approver')}"
    yield Diagnosis("config", OK, f"{path}: {people}{chains}")


def home_rows(named: Path | None) -> Iterator[Diagnosis]:
    """Look at the home of the configuration, where it has one; its mistakes are told elsewhere."""
    path = named or Path("config.yaml")
    if named is None and not path.exists():
        return
    try:
        config = load_config(path)
    except ConfigError:
        return
    if config.services.homeassistant is not None:
        yield asyncio.run(_home(config.services.homeassistant, StoredContacts(Path(config.storage.path))))


class StoredContacts:
    """Values that the owner gave, read without opening the ledger for work."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    async def resolve_owner_contact_info(self, key: str) -> str | None:
        if not self._ledger.exists():
            return None
        archive = open_archive(self._ledger)
        with closing(archive.reader()) as reader:
            sealed = reader.contact(key)
        if sealed is None:
            return None
        value = Seal(archive.secret()).open(key, sealed)
        if value is None:
            raise StorageError(
                f"contact info `{key}` cannot be opened with this ledger's key",
                code=5004,
                suggestion=f"set it again with `agent-gate owner set {key}`",
            )
        return value


async def _home(settings: HomeAssistantConfig, contacts: StoredContacts) -> Diagnosis:
    try:
        sight = await look_at(settings, await resolve_token(settings, contacts, os.environ))
    except AuthRefused as refused:
        return Diagnosis(HOME, FAIL, str(refused), f"no server starts with it: {HOW_TO_SET}")
    except GateError as error:
        return Diagnosis(HOME, FAIL, error.problem.detail, error.problem.suggestion)
    except OSError as error:
        return Diagnosis(HOME, FAIL, f"the owner's token cannot be read: {error}", "see the rows of the database")
    health = sight.health
    if health.trouble:
        advice = "see services.homeassistant; a server starts without its home, and tries again"
        return Diagnosis(HOME, WARN, f"{health.url}: {health.trouble}", advice)
    if not sight.is_running:
        return Diagnosis(HOME, WARN, f"{health.told}; it is still starting", "look again in a moment")
    return Diagnosis(HOME, OK, health.told)


def program_rows(named: Path | None) -> Iterator[Diagnosis]:
    """Look for the programs of the policy, where there is one and it allows any."""
    path = named or Path("policy.yaml")
    if named is None and not path.exists():
        return
    try:
        policy = load_policy(path)
    except ConfigError as error:
        yield from (Diagnosis("policy", FAIL, problem, "mend it: nothing runs under it") for problem in error.problems)
        return
    section, files = policy.guards.shell_run, policy.guards.fs_read
    if section is None or not section.allow_executables:
        return
    around = look_around(policy, real_directory(None))
    rows = list(_programs(section, PathRules("fs.read", files, policy, around) if files else None))
    yield from rows or [Diagnosis(PROGRAMS, OK, ", ".join(section.allow_executables))]


def _programs(section: CommandGuard, files: PathRules | None) -> Iterator[Diagnosis]:
    for name in section.allow_executables:
        try:
            found = find_program(name, section.trusted_dirs)
        except NotFound as why:
            folders = ", ".join(section.trusted_dirs)
            yield Diagnosis(
                PROGRAMS, WARN, f"{name} {why} ({folders})", "install it, or add its directory to trusted_dirs"
            )
            continue
        try:
            needs = needs_of(found, section.trusted_dirs) if section.sandbox != "off" else []
        finally:
            found.descriptor.leave()
        missing = unseen([need._asdict() for need in needs], files)
        if missing is not None:
            yield Diagnosis(PROGRAMS, FAIL, f"{name} is a script that needs {missing.paths}", f"{missing.remedy}")
