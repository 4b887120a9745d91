"""A ledger of an earlier schema is brought to this one whole; one that is there costs no Alembic."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from agent_gate.ledger.sqlite import migrate
from agent_gate.ledger.sqlite.migrate import EARLIER, HEAD, HEADS, revisions, upgrade
from agent_gate.model.errors import StorageError

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded"


@pytest.fixture
def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    return ScriptDirectory.from_config(config)


def a_copy(name: str, folder: Path) -> Path:
    shutil.copy(RECORDED / name, folder / "a.db")
    return folder / "a.db"


def schema(path: Path) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()


def found_in(path: Path) -> frozenset[str]:
    with closing(sqlite3.connect(path)) as connection:
        return revisions(connection)


def test_what_is_known_here_is_what_the_migrations_say(scripts: ScriptDirectory) -> None:
    assert frozenset(scripts.get_heads()) == HEADS
    assert {step.revision for step in scripts.walk_revisions()} == HEADS | EARLIER


def test_the_tables_of_home_assistant_have_a_branch_of_their_own(scripts: ScriptDirectory) -> None:
    (head,) = scripts.get_revisions("home_assistant@head")
    assert (head.revision, head.branch_labels) == ("home_assistant_0002", {"home_assistant"})
    steps = scripts.iterate_revisions(head.revision, "base")
    own = [step.revision for step in steps if "home_assistant" in step.branch_labels]
    assert own == ["home_assistant_0002", "home_assistant_0001"]
    assert head.revision in HEADS - {HEAD}


@pytest.mark.parametrize("name", ["schema-0001.db", "schema-0002.db", "schema-0003.db", "schema-0004.db"])
def test_an_earlier_ledger_gets_the_schema_of_a_new_one(tmp_path: Path, name: str) -> None:
    path = a_copy(name, tmp_path)
    assert upgrade(path)
    assert not upgrade(path)
    new = tmp_path / "new.db"
    new.touch()
    upgrade(new)
    assert (found_in(path), schema(path)) == (HEADS, schema(new))


def test_a_branch_that_is_missing_is_added_to_a_ledger_that_has_the_rest(tmp_path: Path) -> None:
    path = a_copy(f"schema-{HEAD}.db", tmp_path)
    whole = schema(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP VIEW ha_command_log; DROP INDEX ix_ha_command_log_issued_at; DROP TABLE ha_entity_snapshot;"
            "DELETE FROM alembic_version WHERE version_num = 'home_assistant_0002'"
        )
    assert upgrade(path)
    assert (found_in(path), schema(path)) == (HEADS, whole)


def test_a_step_that_fails_undoes_those_before_it(tmp_path: Path) -> None:
    path = a_copy("schema-0001.db", tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE contact_info (in_the_way)")
    before = schema(path)
    with pytest.raises(StorageError, match="contact_info already exists") as refused:
        upgrade(path)
    assert (refused.value.code, found_in(path), schema(path)) == (5002, frozenset({"0001"}), before)


def test_opening_a_ledger_of_this_schema_does_not_import_alembic(tmp_path: Path) -> None:
    path = a_copy(f"schema-{HEAD}.db", tmp_path)
    program = (
        "import sys; from pathlib import Path; from agent_gate.ledger.sqlite.migrate import upgrade;"
        "print(upgrade(Path(sys.argv[1])), {'alembic', 'sqlalchemy'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False set()"
