"""`cors`: preflights are answered, responses are marked, and only for pages of the origins that are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from agent_gate.chain.builtin.cors import Cors
from agent_gate.chain.context import RequestContext
from agent_gate.chain.faults import InvalidRequest
from agent_gate.chain.policy import StatusCode
from tests.unit.chain.builtin.asking import answer_of, ask
from tests.unit.chain.scripted import a_response

PAGE = "https://app.example.com"
METADATA = {"allow_origins": [PAGE], "allow_methods": ["GET", "PUT"], "allow_headers": ["X-Team"]}


def preflight(origin: str = PAGE, method: str = "PUT", headers: str = "x-team") -> RequestContext:
    return RequestContext.create(
        method="OPTIONS",
        headers={
            "origin": origin,
            "access-control-request-method": method,
            "access-control-request-headers": headers,
        },
    )


async def test_a_preflight_is_answered_and_goes_no_further() -> None:
    response = await ask(Cors(), METADATA, preflight(headers="X-TEAM, "))
    status, headers, _ = answer_of(response)
    assert (response.status, response.passes, status) == (StatusCode.OK, False, 204)
    assert headers == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET, PUT",
        "access-control-allow-headers": "x-team",
        "access-control-max-age": "600",
        "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }


@pytest.mark.parametrize(
    "context",
    [
        preflight(origin="https://evil.example.com"),
        preflight(origin="null"),
        preflight(origin=f"{PAGE}.evil.example"),
        preflight(origin="http://app.example.com"),
        preflight(method="DELETE"),
        preflight(method="put"),
        preflight(headers="x-team, x-other"),
        RequestContext.create(
            method="OPTIONS", headers=[("origin", PAGE), ("origin", PAGE), ("access-control-request-method", "GET")]
        ),
    ],
)
async def test_a_preflight_for_anything_else_is_refused(context: RequestContext) -> None:
    response = await ask(Cors(), METADATA, context)
    status, headers, _ = answer_of(response)
    assert (response.status, status) == (StatusCode.POLICY_DENIED, 403)
    assert "access-control-allow-origin" not in headers


async def both_phases(metadata: dict[str, Any], origin: str, response_headers: Any = ()) -> dict[str, str]:
    request = await ask(Cors(), metadata, RequestContext.create(headers={"origin": origin}))
    assert request.passes
    response = await ask(Cors(), metadata, a_response(response_headers, state=dict(request.context.state)))
    assert response.passes
    return dict(response.context.headers)


async def test_the_response_to_an_allowed_page_is_marked() -> None:
    metadata = {**METADATA, "allow_credentials": True, "expose_headers": ["X-Total"]}
    assert await both_phases(metadata, PAGE, {"vary": "Accept"}) == {
        "vary": "Accept, Origin",
        "access-control-allow-origin": PAGE,
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": "X-Total",
    }


async def test_the_response_to_any_other_page_is_not_marked_also_not_by_the_server_behind() -> None:
    theirs = {"access-control-allow-origin": "*", "access-control-allow-credentials": "true", "vary": "Origin"}
    assert await both_phases(METADATA, "https://evil.example.com", theirs) == {"vary": "Origin"}


async def test_any_origin_is_a_star() -> None:
    assert (await both_phases({"allow_origins": ["*"]}, "https://x.example"))["access-control-allow-origin"] == "*"


async def test_requests_without_an_origin_pass_and_others_are_refused_where_that_is_asked_for() -> None:
    strict = {**METADATA, "deny_other_origins": True}
    assert (await ask(Cors(), strict, RequestContext.create())).passes
    assert (await ask(Cors(), strict, RequestContext.create(headers={"origin": PAGE}))).passes
    refused = await ask(Cors(), strict, RequestContext.create(headers={"origin": "https://evil.example.com"}))
    assert answer_of(refused)[0] == 403


async def test_options_that_is_no_preflight_goes_on() -> None:
    assert (await ask(Cors(), METADATA, RequestContext.create(method="OPTIONS", headers={"origin": PAGE}))).passes


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"allow_origins": []},
        {"allow_origins": ["*"], "allow_credentials": True},
        {"allow_origins": ["*", PAGE]},
        {"allow_origins": ["https://a\r\nx: y"]},
        {**METADATA, "allow_methods": ["G ET"]},
        {**METADATA, "allow_headers": ["a\n"]},
        {**METADATA, "expose_headers": [""]},
    ],
)
async def test_metadata_that_make_no_sense_are_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await ask(Cors(), metadata)
