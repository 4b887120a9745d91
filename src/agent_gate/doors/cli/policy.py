"""`agent-gate policy`: what a policy would have meant for the past."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from agent_gate.config import load_policy
from agent_gate.config.policy_warnings import warnings_of
from agent_gate.doors.cli import screen
from agent_gate.doors.cli.faults import UsageMistake
from agent_gate.doors.cli.ledgers import existing_database, reading
from agent_gate.doors.cli.options import DEFAULT_DB, AsJson, Db, commands, examples
from agent_gate.doors.codes import Exit
from agent_gate.history.own_files import own_files
from agent_gate.history.policy_try import Flip, Trial
from agent_gate.history.policy_try import try_policy as trial_of
from agent_gate.history.query import moment_since
from agent_gate.model.errors import ToolError
from agent_gate.policy.judge import Judge
from agent_gate.resolve.ownership import Start, find_own
from agent_gate.resolve.surroundings import look_around, real_directory

FLIPS_SHOWN_MAX = 100
WHY_FROM_COLUMNS = 110
"""A terminal that is narrower has no room for reasons; --json has them all."""

app = commands("What a policy would have meant for the past.")


@app.callback()
def _group() -> None:
    """What a policy would have meant for the past."""


@app.command(
    "try",
    epilog=examples("agent-gate policy try -p stricter.yaml", "agent-gate policy try -p new.yaml --since 7d --json"),
)
def try_policy(
    policy: Annotated[Path, typer.Option("-p", "--policy", metavar="FILE", help="The policy to try.")],
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only from then on: 2h, 7d or an ISO 8601 moment.")
    ] = None,
    working_dir: Annotated[
        Path | None, typer.Option("--working-dir", metavar="DIR", help="Where relative paths begin.")
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> int:
    """Judge every recorded call again and list what would change.

    The exit code is 1 if anything is newly allowed.
    """
    loaded, here = load_policy(policy), real_directory(working_dir)
    for warning in warnings_of(loaded):
        screen.warn(warning)
    own = find_own(Start.of(here, [existing_database(db)], protected=[policy]))
    try:
        moment = moment_since(since, time.time()) if since else None
    except ToolError as error:
        raise UsageMistake(f"{error.problem.detail}: {error.problem.suggestion}", "agent-gate policy try") from None
    with screen.working("judging"), reading(db) as reader:
        protected, secret = own_files(reader)
        around = look_around(loaded, here, protected=(*own.unwritten, *protected), secret=(*own.secret, *secret))
        trial = trial_of(reader, Judge(loaded, around), moment)
    if as_json:
        screen.print_json(trial.to_json())
    else:
        _print(trial)
    return Exit.DENIED if trial.newly_allowed else Exit.SUCCESS


def _print(trial: Trial) -> None:
    with_why = (screen.columns() or WHY_FROM_COLUMNS) >= WHY_FROM_COLUMNS
    columns = ("when", "agent", "was", "would be", "call", *(["why"] if with_why else []))
    rows = [
        (
            f"{flip.at[:10]} {flip.at[11:19]}",
            flip.agent_id,
            flip.was,
            flip.would_be,
            screen.shortened(flip.signatures[0], 120),
            *([_why(flip)] if with_why else []),
        )
        for flip in trial.flips[:FLIPS_SHOWN_MAX]
    ]
    screen.print_table(columns, rows, empty="no verdict would change", whole=("when",))
    if len(trial.flips) > FLIPS_SHOWN_MAX:
        screen.say(f"and {len(trial.flips) - FLIPS_SHOWN_MAX} more")
    screen.say(
        f"{screen.count(trial.judged, 'call')} judged: {trial.newly_allowed} newly allowed, {trial.newly_denied} newly"
        f" denied, {trial.approvals_saved} approvals saved, {trial.approvals_added} added"
    )


def _why(flip: Flip) -> str:
    return screen.shortened("; ".join(reason.get("text") or reason.get("rule", "") for reason in flip.reasons), 120)
