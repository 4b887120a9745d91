"""Calls that have no outcome yet, found by their id, by the agent's own request id, and by the run they belong to."""

from __future__ import annotations

from collections.abc import Iterator

from agent_gate.gate.progress import Progress


class UnderWay:
    """The calls that this gate works on."""

    def __init__(self) -> None:
        self._by_call: dict[str, Progress] = {}
        self._by_request: dict[tuple[str, str], Progress] = {}
        self._of_run: dict[str, Progress] = {}
        """The last step of each run that has not ended: under way, or just settled."""

    def __len__(self) -> int:
        return len(self._by_call)

    def __iter__(self) -> Iterator[Progress]:
        return iter(self._by_call.values())

    def add(self, progress: Progress) -> None:
        request = progress.request
        self._by_call[progress.call_id] = progress
        if request.request_id is not None:
            self._by_request[request.agent.id, request.request_id] = progress
        if request.run_id is not None:
            self._of_run[request.run_id] = progress

    def remove(self, progress: Progress) -> None:
        """Its run keeps it as the last step until that ends."""
        request = progress.request
        self._by_call.pop(progress.call_id, None)
        if request.request_id is not None:
            self._by_request.pop((request.agent.id, request.request_id), None)

    def call(self, call_id: str) -> Progress | None:
        return self._by_call.get(call_id)

    def request(self, agent_id: str, request_id: str) -> Progress | None:
        return self._by_request.get((agent_id, request_id))

    def last_step(self, run_id: str) -> Progress | None:
        return self._of_run.get(run_id)

    def forget_run(self, run_id: str) -> None:
        self._of_run.pop(run_id, None)
