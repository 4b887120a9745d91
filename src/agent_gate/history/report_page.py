"""The report as one HTML page: nothing is loaded from elsewhere, and nothing in it can run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from agent_gate.model.moment import epoch
from agent_gate.model.visible import visible

SHOWN_CHARS_MAX = 4_000
BAR_HEIGHT, BAR_GAP, LABEL_WIDTH, PICTURE_WIDTH = 14, 6, 260, 900
STEPS_PICTURED_MAX = 200


def render(report: Mapping[str, Any]) -> str:
    run, summary = report["run"], report["summary"]
    plan = report["plan"] or {}
    title = f"{plan.get('name') or 'run'} · {run['status']}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        _facts(report),
        "<h2>Timeline</h2>",
        _timeline(report["steps"]),
        _denials(summary["denials"]),
        "<h2>Steps</h2>",
        *(_step(step) for step in report["steps"]),
        _resources(summary["resources"]),
        _details("Plan", report["plan"]),
        _details("Policy", report["policy"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>agent-gate: {_text(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _text(value: object) -> str:
    """Agent text cannot hide: what is invisible is written out, what is markup is escaped."""
    return escape(visible(str(value)))


def _facts(report: Mapping[str, Any]) -> str:
    run, summary = report["run"], report["summary"]
    counts = ", ".join(f"{count} {status}" for status, count in summary["statuses"].items()) or "no step was made"
    rows = (
        ("Run", run["run_id"]),
        ("Mode", run["mode"]),
        ("Began", run["created_at"]),
        ("Took", _duration(summary["total_duration_ms"])),
        ("Steps", f"{counts}; {run['total_steps']} planned"),
        ("Plan hash", run["plan_hash"]),
        ("Policy hash", run["policy_hash"]),
    )
    cells = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in rows)
    return f"<dl>{cells}</dl>"


def _duration(duration_ms: float | None) -> str:
    return "not ended" if duration_ms is None else f"{duration_ms:,.1f} ms"


def _timeline(steps: Sequence[Mapping[str, Any]]) -> str:
    """One bar a step, from its start to its end, on the run's own scale."""
    timed = [step for step in steps if "started_at" in step["result"]][:STEPS_PICTURED_MAX]
    if not timed:
        return "<p>No step was made.</p>"
    begin = min(epoch(step["result"]["started_at"]) for step in timed)
    span = max(epoch(step["result"]["ended_at"]) for step in timed) - begin or 1e-6
    width = PICTURE_WIDTH - LABEL_WIDTH
    bars = []
    for row, step in enumerate(timed):
        result, y = step["result"], row * (BAR_HEIGHT + BAR_GAP)
        x = LABEL_WIDTH + (epoch(result["started_at"]) - begin) / span * width
        length = max(2.0, (epoch(result["ended_at"]) - epoch(result["started_at"])) / span * width)
        label = f"{step.get('step_index', '')} {step['tool_name']}"
        bars.append(
            f'<text x="0" y="{y + 11}">{_text(label[:40])}</text>'
            f'<rect class="{_text(result["status"])}" x="{x:.1f}" y="{y}"'
            f' width="{length:.1f}" height="{BAR_HEIGHT}" rx="3">'
            f"<title>{_text(label)}: {_text(result['status'])}, {_duration(result['duration_ms'])}</title></rect>"
        )
    height = len(timed) * (BAR_HEIGHT + BAR_GAP)
    box = f'viewBox="0 0 {PICTURE_WIDTH} {height}"'
    return f'<svg role="img" aria-label="timeline of the steps" {box}>{"".join(bars)}</svg>'


def _denials(denials: Sequence[Mapping[str, Any]]) -> str:
    if not denials:
        return ""
    items = "".join(
        f"<li><b>Step {_text(denial['step_index'])}</b> {_text(', '.join(denial['signatures']))}:"
        f" {_text(denial['reason'])}"
        f"<br><i>{_text(denial['remedy'])}</i></li>"
        for denial in denials
    )
    return f"<h2>Denied</h2><ul>{items}</ul>"


def _step(step: Mapping[str, Any]) -> str:
    result = step["result"]
    status = _text(result["status"])
    head = (
        f'<summary><span class="badge {status}">{status}</span> {_text(step.get("step_index", ""))} '
        f"<code>{_text(', '.join(step.get('signatures') or [step['tool_name']]))}</code> "
        f"<small>{_duration(result.get('duration_ms'))}</small></summary>"
    )
    shown = {key: value for key, value in step.items() if key not in ("signatures", "tool_name", "step_index")}
    return f"<details>{head}{_json(shown)}</details>"


def _resources(resources: Mapping[str, Sequence[str]]) -> str:
    rows = "".join(
        f"<dt>{_text(kind.replace('_', ' '))}</dt><dd>{'<br>'.join(map(_text, names))}</dd>"
        for kind, names in resources.items()
        if names
    )
    return f"<h2>Touched</h2><dl>{rows}</dl>" if rows else ""


def _details(title: str, value: object) -> str:
    return f"<details><summary>{title}</summary>{_json(value)}</details>"


def _json(value: object) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    cut = (
        "" if len(text) <= SHOWN_CHARS_MAX else f"\n… {len(text) - SHOWN_CHARS_MAX} more characters in the JSON report"
    )
    return f"<pre>{_text(text[:SHOWN_CHARS_MAX] + cut)}</pre>"


STYLE = """
:root{color-scheme:light dark;--line:#8884}
body{font:15px/1.5 system-ui,sans-serif;margin:0}main{max-width:60rem;margin:auto;padding:1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{opacity:.7}dd{margin:0;overflow-wrap:anywhere}
svg{width:100%;border:1px solid var(--line);border-radius:6px;padding:8px;box-sizing:border-box}
svg text{font:11px system-ui,sans-serif;fill:currentColor}
details{border-bottom:1px solid var(--line);padding:.4rem 0}summary{cursor:pointer;overflow-wrap:anywhere}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.6rem;border-radius:6px}
.badge{border-radius:4px;padding:0 .4rem;color:#fff;font-size:.85em}
.success{background:#1a7f37;fill:#1a7f37}.denied,.expired{background:#9a6700;fill:#9a6700}
.error,.unknown{background:#cf222e;fill:#cf222e}
"""
