"""One direction of an exchange, request or response, as a table: what may come next, and what is done about it.

Whatever ends a direction, the chain has run by then: no row leads from a message that nobody has judged to one that
passes. What the table does not name is refused, and ends the exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class Event(Enum):
    """The parts of a message that Envoy shows."""

    HEADERS = "headers"
    LAST_HEADERS = "last headers"
    """With which the message ends."""
    BODY = "body"
    LAST_BODY = "last body"
    TRAILERS = "trailers"


class Holding(Enum):
    """The side that keeps the message back until the chain has seen all that it must see."""

    NOBODY = "nobody"
    """The chain looks at headers only, or there is none for this direction."""
    AGENT = "agent"
    """Envoy sends piece after piece, and lets on what it gets back (FULL_DUPLEX_STREAMED)."""
    ENVOY = "envoy"
    """Envoy sends the body in one piece (BUFFERED), which is certain to come."""
    IMPOSSIBLE = "impossible"


class Stage(Enum):
    UNSEEN = "unseen"
    KEPT = "kept"
    """Headers, and what has come of the body, are here; Envoy has no answer yet."""
    DUE = "due"
    """Envoy keeps all of it until it has an answer to the body."""
    WHOLE = "whole"
    """All but the trailers was judged."""
    OPEN = "open"
    """The headers were judged, and what follows passes."""
    OVER = "over"


class Act(Enum):
    JUDGE = "judge"
    KEEP = "keep"
    AWAIT_BODY = "await body"
    LET_ON = "let on"
    REFUSE = "refuse"


class Move(NamedTuple):
    act: Act
    stage: Stage


REFUSED = Move(Act.REFUSE, Stage.OVER)

FIRST: Mapping[Holding, Move] = {
    Holding.NOBODY: Move(Act.JUDGE, Stage.OPEN),
    Holding.AGENT: Move(Act.KEEP, Stage.KEPT),
    Holding.ENVOY: Move(Act.AWAIT_BODY, Stage.DUE),
    Holding.IMPOSSIBLE: REFUSED,
}
"""For headers after which more is to come."""

NEXT: Mapping[tuple[Stage, Event], Move] = {
    (Stage.UNSEEN, Event.LAST_HEADERS): Move(Act.JUDGE, Stage.OVER),
    (Stage.KEPT, Event.BODY): Move(Act.KEEP, Stage.KEPT),
    (Stage.KEPT, Event.LAST_BODY): Move(Act.JUDGE, Stage.OVER),
    (Stage.KEPT, Event.TRAILERS): Move(Act.JUDGE, Stage.OVER),
    # Envoy says of a body before trailers that it is the last, or not: it comes in one piece anyhow.
    (Stage.DUE, Event.BODY): Move(Act.JUDGE, Stage.WHOLE),
    (Stage.DUE, Event.LAST_BODY): Move(Act.JUDGE, Stage.WHOLE),
    (Stage.WHOLE, Event.TRAILERS): Move(Act.LET_ON, Stage.OVER),
    (Stage.OPEN, Event.BODY): Move(Act.LET_ON, Stage.OPEN),
    (Stage.OPEN, Event.LAST_BODY): Move(Act.LET_ON, Stage.OVER),
    (Stage.OPEN, Event.TRAILERS): Move(Act.LET_ON, Stage.OVER),
}


def move(stage: Stage, event: Event, holding: Holding) -> Move:
    if (stage, event) == (Stage.UNSEEN, Event.HEADERS):
        return FIRST[holding]
    return NEXT.get((stage, event), REFUSED)
