"""The report as one HTML page: nothing is loaded from elsewhere, and nothing in it can run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from agent_gate.history.replay_words import in_words
from agent_gate.history.report_page_style import STYLE
from agent_gate.history.touched import endings
from agent_gate.model.moment import epoch, span
from agent_gate.model.visible import visible, visible_lines

SHOWN_CHARS_MAX = 4_000
STEPS_PICTURED_MAX = 200
BAR_UNITS = 1_000
"""Fineness of the picture: a bar's place and length are counted in these."""

_ICONS = {"success": "✓", "denied": "✗", "error": "!", "expired": "⌛"}
_TEXTS = ("content", "stdout", "stderr", "body")
"""Results that are texts of their own, and read better as such than within JSON."""

Step = Mapping[str, Any]


def render(report: Mapping[str, Any]) -> str:
    run, summary = report["run"], report["summary"]
    plan = report["plan"] or {}
    title = f"{plan.get('name') or 'run'} · {run['status']}"
    described = plan.get("description")
    parts = [
        f"<header><h1>{_text(title)}</h1>{f'<p>{_text(described)}</p>' if described else ''}{_facts(report)}</header>",
        _section("Timeline", _timeline(report["steps"])),
        _section("Not done", _refusals(report["steps"])),
        _section("Touched", _touched(summary["resources"], endings(report))),
        _section("Steps", "".join(map(_step, report["steps"]))),
        _section("Plan and policy", _details("Plan", report["plan"]) + _details("Policy", report["policy"])),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>agent-gate: {_text(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _text(value: object, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """Agent text cannot hide: what is invisible is written out, what is markup is escaped."""
    return escape(visible(value, chars_max))


def _section(title: str, body: str) -> str:
    name = title.lower().replace(" ", "-")
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{body}</section>' if body else ""


def _facts(report: Mapping[str, Any]) -> str:
    run, summary = report["run"], report["summary"]
    counts = ", ".join(f"{count} {status}" for status, count in summary["statuses"].items()) or "no step was made"
    took = summary["total_duration_ms"]
    rows = (
        ("Run", run["run_id"]),
        ("Replay of", run.get("original_run_id")),
        ("Mode", run["mode"]),
        ("Began", run["created_at"]),
        ("Took", "not ended" if took is None else span(took)),
        ("Steps", f"{counts}; {run['total_steps']} planned"),
        ("Sandbox", ", ".join(name for name in summary["sandboxes"] if name != "off")),
        ("Plan hash", run["plan_hash"]),
        ("Policy hash", run["policy_hash"]),
        ("Written", report["generated_at"]),
    )
    cells = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in rows if value)
    refused = _run_refusal(run["error"]) if "error" in run else ""
    warning = (
        '<p class="warning"><b>sandbox: off</b> The policy lets commands run without a sandbox.</p>'
        if "off" in summary["sandboxes"]
        else ""
    )
    if summary["direct_writes"]:
        warning += '<p class="warning"><b>writes: direct</b> What commands wrote was not judged.</p>'
    return f"<dl>{cells}</dl>{refused}{warning}"


def _run_refusal(error: Mapping[str, Any]) -> str:
    """Say why the run as a whole was refused or broken off."""
    remedy = f" <b>To change it:</b> {_text(error['suggestion'])}" if error.get("suggestion") else ""
    code = f"<small>{error['code']} {_text(error['name'])}</small>"
    return f'<p class="warning"><b>Not run to its end:</b> {_text(error.get("detail", ""))} {code}{remedy}</p>'


def _timeline(steps: Sequence[Step]) -> str:
    """A row for each step, with a bar from its start to its end on the run's own scale."""
    timed = [step for step in steps if "started_at" in step["result"]]
    if not timed:
        return "<p>No step was made.</p>"
    begin = min(epoch(step["result"]["started_at"]) for step in timed)
    whole = max(epoch(step["result"]["ended_at"]) for step in timed) - begin or 1e-6
    rows = "".join(_row(step, begin, whole) for step in timed[:STEPS_PICTURED_MAX])
    left_out = len(timed) - STEPS_PICTURED_MAX
    more = f"<p>{left_out} later steps are not pictured; they are listed below.</p>" if left_out > 0 else ""
    scale = f'<li class="scale" aria-hidden="true"><p><span>0</span><span>{span(whole * 1000)}</span></p></li>'
    return f'<ol class="timeline">{rows}{scale}</ol>{more}'


def _row(step: Step, begin: float, whole: float) -> str:
    result = step["result"]
    start = round((epoch(result["started_at"]) - begin) / whole * BAR_UNITS)
    length = max(6, round((epoch(result["ended_at"]) - epoch(result["started_at"])) / whole * BAR_UNITS))
    label = (
        f"{result['status']}, began after {span(start / BAR_UNITS * whole * 1000)}, took {span(result['duration_ms'])}"
    )
    return (
        f'<li><a href="#{_anchor(step)}">{_badge(result["status"])} {_number(step)} {_text(_title(step), 80)}</a>'
        f'<svg role="img" aria-label="{_text(label)}" viewBox="0 0 {BAR_UNITS} 10" preserveAspectRatio="none">'
        f"<title>{_text(label)}</title>"
        f'<rect class="{_text(result["status"])}" x="{min(start, BAR_UNITS - 6)}" y="0" width="{length}" height="10"/>'
        f'</svg><span class="took">{span(result["duration_ms"])}</span></li>'
    )


def _number(step: Step) -> str:
    return str(step["step_index"] + 1) if "step_index" in step else "–"


def _title(step: Step) -> str:
    return str(step.get("name") or ", ".join(step.get("signatures") or [step["tool_name"]]))


def _anchor(step: Step) -> str:
    return f"call-{_text(step['call_id'])}"


def _badge(status: str) -> str:
    """Icon and word: what it says does not hang on its colour."""
    return f'<span class="badge {_text(status)}">{_ICONS.get(status, "?")} {_text(status)}</span>'


def _refusals(steps: Sequence[Step]) -> str:
    """Every step that was denied or failed, with the reason, the remedy and the code."""
    items = "".join(map(_refusal, (step for step in steps if step["result"]["status"] != "success")))
    return f'<ul class="refusals">{items}</ul>' if items else ""


def _refusal(step: Step) -> str:
    result = step["result"]
    error = result.get("error") or {"detail": "it is not known how it ended", "code": "", "name": ""}
    remedy = (
        f'<p class="remedy"><b>To change it:</b> {_text(error["suggestion"])}</p>' if error.get("suggestion") else ""
    )
    return (
        f'<li>{_badge(result["status"])} <a href="#{_anchor(step)}">Step {_number(step)}</a>'
        f" <code>{_text(', '.join(step.get('signatures') or [step['tool_name']]))}</code>"
        f'<p class="why">{_text(error.get("detail", ""))} <small>{error["code"]} {_text(error["name"])}</small></p>'
        f"{remedy}</li>"
    )


def _step(step: Step) -> str:
    result = step["result"]
    took = f"<small>{span(result['duration_ms'])}</small>" if "duration_ms" in result else ""
    name = f"{_text(step['name'])} " if "name" in step else ""
    head = (
        f"<summary>{_badge(result['status'])} {_number(step)} {name}"
        f"<code>{_text(', '.join(step.get('signatures') or [step['tool_name']]))}</code> {took}</summary>"
    )
    return f'<details id="{_anchor(step)}">{head}{"".join(_inside(step))}</details>'


def _inside(step: Step) -> Iterator[str]:
    """Show what was asked, what came of it, and all else that is on record."""
    result = dict(step["result"])
    if "replayed" in step:
        yield f"<h3>Replayed</h3><p>{_text(in_words(step['replayed']))}</p>"
    yield f"<h3>Arguments</h3>{_json(step.get('args'))}"
    data = result.pop("data", None)
    texts = {name: data[name] for name in _TEXTS if isinstance(data.get(name), str)} if isinstance(data, dict) else {}
    for name, text in texts.items():
        if text:
            yield f"<h3>{name}</h3>{_block(text)}"
    if data is not None:
        others = {name: value for name, value in data.items() if name not in texts} if texts else data
        yield f"<h3>Result</h3>{_json(others)}"
    known = ("signatures", "tool_name", "step_index", "args", "name", "result", "replayed")
    yield f"<h3>Record</h3>{_json({**{key: step[key] for key in step if key not in known}, **result})}"


def _touched(resources: Mapping[str, Sequence[str]], ended: Mapping[tuple[str, str], str]) -> str:
    """All that was attempted; where that did not succeed, with how it ended."""
    rows = "".join(
        f"<dt>{_text(kind.replace('_', ' '))}</dt>"
        f"<dd>{'<br>'.join(_text(name) + _how(ended.get((kind, name))) for name in names)}</dd>"
        for kind, names in resources.items()
        if names
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _how(ended: str | None) -> str:
    return f" <b>{_text(ended)}</b>" if ended else ""


def _details(title: str, value: object) -> str:
    return f"<details><summary>{title}</summary>{_json(value)}</details>" if value is not None else ""


def _json(value: object) -> str:
    return _block(json.dumps(value, indent=2, ensure_ascii=False))


def _block(text: str) -> str:
    lines, left_out = visible_lines(text, SHOWN_CHARS_MAX)
    cut = f"\n… {left_out} more characters in the JSON report" if left_out else ""
    return f'<pre tabindex="0">{escape(chr(10).join(lines))}{cut}</pre>'
