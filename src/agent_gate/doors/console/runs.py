"""Runs, and the report on each."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from starlette.responses import HTMLResponse, Response

from agent_gate.doors.console.frame import HEADERS, Visit
from agent_gate.history import query, report, report_page
from agent_gate.history.report_page_style import STYLE
from agent_gate.history.touched import endings
from agent_gate.model.bounds import CONSOLE_ROWS_MAX
from agent_gate.model.codec import restore
from agent_gate.ports.reading import Reader

_STYLE_HASH = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
_REPORT_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"


async def show_all(visit: Visit) -> Response:
    found = await visit.console.read(query.runs, CONSOLE_ROWS_MAX)
    named = [{**run, "plan_name": _plan_name(run)} for run in found]
    return await visit.page("runs.html", runs=named, runs_max=CONSOLE_ROWS_MAX)


async def show(visit: Visit) -> Response:
    built = await visit.console.read(_report, visit)
    return await visit.page("run.html", report=built, ended=endings(built))


async def show_report(visit: Visit) -> Response:
    """The report as `agent-gate report --format html` writes it: one page that can be kept."""
    page = await visit.console.read(lambda reader: report_page.render(_report(reader, visit)))
    return HTMLResponse(page, headers={**HEADERS, "content-security-policy": _REPORT_POLICY})


def _plan_name(run: Mapping[str, Any]) -> str:
    return str(restore(run["plan_json"].encode()).get("name", "")) if run["plan_json"] else ""


def _report(reader: Reader, visit: Visit) -> dict[str, Any]:
    return report.build_report(reader, visit.request.path_params["run_id"], visit.now)
