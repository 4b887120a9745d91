"""Things that the steps of a run reached out for: files, domains, commands and all else, and how each attempt ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

KINDS = ("files_read", "files_written", "domains_contacted", "commands_run", "other_calls")

Step = Mapping[str, Any]


def resources(steps: Iterable[Step]) -> dict[str, list[str]]:
    """Everything that was attempted, by kind, however it ended; each once, sorted."""
    touched: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for step in steps:
        for kind, name in _reached_for(step):
            touched[kind].add(name)
    return {kind: sorted(names) for kind, names in touched.items()}


def attempts(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The same step by step, with how each ended and the code of what went wrong."""
    return [
        {"kind": kind, "name": name, **_ending(step)}
        for step in steps
        for kind, name in dict.fromkeys(_reached_for(step))
    ]


def endings(report: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """For each thing whose attempts did not all succeed, how they ended: `error 2004, success`."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for one in report["summary"]["attempts"]:
        text = " ".join(str(one[key]) for key in ("status", "code") if key in one)
        found.setdefault((one["kind"], one["name"]), {})[text] = None
    return {place: ", ".join(texts) for place, texts in found.items() if list(texts) != ["success"]}


def _ending(step: Step) -> dict[str, Any]:
    result = step["result"]
    fields = {"status": result["status"], "call_id": step["call_id"]}
    if "step_index" in step:
        fields["step_index"] = step["step_index"]
    if "error" in result:
        fields["code"] = result["error"]["code"]
    return fields


def _reached_for(step: Step) -> Iterator[tuple[str, str]]:
    if not _was_attempted(step):
        return
    result = step["result"]
    for signature in step.get("signatures", ()):
        yield _touched(signature)
    # What a command wrote stays where it failed in the end; what was never committed it only would have changed.
    if step.get("committed") or result["status"] in ("success", "unknown"):
        for file in result.get("files", ()):
            yield "files_written", file["path"]
    if step["tool_name"] == "http.get":
        for host in _hosts(result.get("data")):
            yield "domains_contacted", host


def _was_attempted(step: Step) -> bool:
    """Tell whether it came to the act: its intent was written, or it needed none and the act succeeded or failed."""
    result = step["result"]
    if step.get("intended") or result["status"] == "success":
        return True
    return result["status"] in ("error", "unknown") and result.get("error", {}).get("stage") == "perform"


def _hosts(data: Any) -> Iterable[str]:
    """Tell where a fetch went in the end, and on the way."""
    urls = [data.get("url"), *data.get("redirects", ())] if isinstance(data, dict) else []
    return [url.partition("://")[2].partition("/")[0] for url in urls if isinstance(url, str)]


def _touched(signature: str) -> tuple[str, str]:
    tool, _, rest = signature.partition("(")
    inside = rest.removesuffix(")")
    match tool:
        case "fs.read":
            return "files_read", inside
        case "fs.write":
            return "files_written", inside
        case "http.get":
            return "domains_contacted", inside.partition("://")[2].partition("/")[0]
        case "shell.run":
            return "commands_run", inside
        case _:
            return "other_calls", signature
