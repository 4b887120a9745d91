"""Permission rules as people write them; annotations are not postponed, see `model/setting.py`."""

from dataclasses import dataclass, field
from typing import Annotated

from agent_gate.model.setting import Setting


@dataclass(frozen=True)
class PermissionRule:
    """A verdict on the signatures that a pattern matches."""

    pattern: Annotated[str, Setting("which signatures it speaks of", min_length=1)]
    action: Annotated[str, Setting("what it says of them", choices=("allow", "deny", "ask"))]
    description: Annotated[str, Setting("why; shown wherever the rule speaks")] = ""
    when: Annotated[str, Setting("an expression; the rule speaks only where it holds", min_length=1)] = ""


@dataclass(frozen=True)
class Permissions:
    """Rules, and defaults for where none of them speaks."""

    defaults: Annotated[
        list[PermissionRule], Setting("asked in order when no rule and no guard spoke; the first match answers")
    ] = field(default_factory=list)
    rules: Annotated[list[PermissionRule], Setting("deny beats allow, allow beats ask, in any order")] = field(
        default_factory=list
    )
