"""Loads config.yaml: read, replace variables, validate in full, and only then build typed settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from agent_gate.config.coercion import coerce_texts
from agent_gate.config.config_checks import check_meaning, refuse_what_is_not_here
from agent_gate.config.file_format import FileFormat
from agent_gate.config.problems import Problems, check_schema, with_environment
from agent_gate.config.settings import Config
from agent_gate.config.yaml_file import PathLike, load_yaml
from agent_gate.model.setting import Setting
from agent_gate.model.tool import Json

CONFIG_FORMAT = FileFormat("agent-gate config.yaml", Config, Setting("Where things are: needed by `agent-gate serve`."))
Check: TypeAlias = Callable[[Json, Problems], None]
"""Adds what is wrong with a file beyond what can be known here."""


def load_config(path: PathLike = "config.yaml", *, for_agents: bool = True, check: Check | None = None) -> Config:
    """The settings in a file; ConfigError holds every problem at once.

    Where no agents are served over a network, as by `run`, `mcp` or a policy agent alone, `gateway` and `agent` may be
    absent. `check` looks besides at what only those know who use it: the steps of chains.
    """
    document, problems = with_environment(load_yaml(path), CONFIG_FORMAT)
    if not for_agents and isinstance(document.value, dict):
        document.value.setdefault("gateway", {"host": "127.0.0.1", "port": 1})
    coerce_texts(document.value, CONFIG_FORMAT.schema)
    refuse_what_is_not_here(document.value, problems)
    if check_schema(document, CONFIG_FORMAT, problems):
        check_meaning(document.value, problems, for_agents=for_agents)
        if check is not None:
            check(document.value, problems)
    problems.raise_any()
    config = CONFIG_FORMAT.value_of(document.value)
    return config if config.agent is None else replace(config, agents=(config.agent,))
