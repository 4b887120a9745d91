"""A webhook as a messenger: one place, a URL, that is told of each question, of its changes and of its end."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Coroutine, Mapping
from urllib.parse import urlsplit

import httpx2
import orjson

from agent_gate.config import WebhookConfig
from agent_gate.doors.messengers.adapter import Attached
from agent_gate.doors.messengers.channel import SHOW_ANEW, Message
from agent_gate.doors.messengers.delivery import Undelivered
from agent_gate.doors.messengers.render import one_line
from agent_gate.doors.messengers.seal import Seals
from agent_gate.doors.messengers.status import Ended, Open
from agent_gate.doors.messengers.webhook import payload
from agent_gate.doors.messengers.webhook.signature import Signer
from agent_gate.model.bounds import (
    WEBHOOK_ENDING_S_MAX,
    WEBHOOK_QUESTIONS_MAX,
    WEBHOOK_RETRY_AFTER_S_MAX,
    WEBHOOK_TIMEOUT_S,
)
from agent_gate.model.codec import sha256_hex
from agent_gate.model.tool import Json

_BUSY = (429, 503)
_PUT_OFF_MAX = 3
"""Times in a row that a receiver may say when to come again before that is trouble."""
_log = logging.getLogger(__name__)


class WebhookAdapter:
    """An `Adapter`; answers come by `/api/v1/answers`."""

    name = payload.CHANNEL
    closes_by_reference = False
    questions_max = WEBHOOK_QUESTIONS_MAX
    trouble = ""
    """Only that it is put off again and again; that a message does not arrive is known to who delivers it."""

    def __init__(
        self,
        settings: WebhookConfig,
        *,
        timeout_s: float = WEBHOOK_TIMEOUT_S,
        ending_s_max: float = WEBHOOK_ENDING_S_MAX,
    ) -> None:
        self._url, self._signer = settings.url, Signer(settings.secret)
        self._host = urlsplit(settings.url).hostname or ""
        self._timeout_s, self._ending_s_max = timeout_s, ending_s_max
        self.places = (sha256_hex(settings.url.encode())[:16],)
        """Another URL is another place, which is told of what is open; the URL itself is written down nowhere."""
        self._untold_since: dict[str, float] = {}
        self._put_off = 0
        self._client = httpx2.AsyncClient(
            headers={"User-Agent": "agent-gate", "Content-Type": "application/json"},
            verify=ssl.create_default_context() if settings.url.startswith("https:") else False,  # False: no TLS at all
            trust_env=False,
            follow_redirects=False,
            timeout=timeout_s,
            limits=httpx2.Limits(max_connections=1),
        )

    def attach(self, attached: Attached) -> None:
        self._gate, self._approvals = attached.context.gate, attached.context.approvals
        self._seals = Seals(self._gate.secrets.keyed_hash, self.name)

    async def start(self) -> None:
        """Nothing is sent before there is something to say."""

    def listening(self) -> tuple[Coroutine[None, None, None], ...]:
        return ()

    def before_look(self) -> None:
        """Nothing gets lost between two looks."""

    async def close_down(self) -> None:
        await self._client.aclose()

    def concerns(self, place: str, now: Open) -> bool:  # noqa: ARG002 -- the receiver knows whom to ask
        return True

    async def show(self, place: str, now: Open, before: Message | None) -> Message:  # noqa: ARG002 -- there is one
        anew = before is None or before.state == SHOW_ANEW
        once_only = bool(self._approvals.why_once_only(now.question))
        await self._post(payload.asked(now, self._seals, anew=anew, once_only=once_only))
        return Message()

    async def close(self, place: str, call_id: str, now: Ended, before: Message) -> Message | None:
        if place not in self.places:
            return None
        if not (now.recorded or now.final):  # an answer that was given in time may be on its way into the ledger
            return before
        try:
            await self._post(payload.ended(call_id, now))
        except Undelivered:
            if not self._is_given_up(call_id):
                raise
            _log.error("the webhook was not told that the question about call %s has ended", call_id)
        self._untold_since.pop(call_id, None)
        return None

    def _is_given_up(self, call_id: str) -> bool:
        seconds = asyncio.get_running_loop().time()
        return seconds - self._untold_since.setdefault(call_id, seconds) >= self._ending_s_max

    async def _post(self, message: Mapping[str, Json]) -> None:
        """The same message has the same id, however often it is sent."""
        body = orjson.dumps(message)
        message_id = f"msg_{self._gate.secrets.keyed_hash(b'webhook message' + body)[:32]}"
        headers = self._signer.headers(message_id, int(self._gate.clock.now()), body)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                self._look_at(response)
        except (TimeoutError, httpx2.TimeoutException):
            raise Undelivered(f"the webhook at {self._host} did not answer within {self._timeout_s:g} s") from None
        except (httpx2.HTTPError, OSError) as error:
            why = one_line(str(error), 200).lower() or type(error).__name__
            raise Undelivered(f"the webhook at {self._host} cannot be reached ({why})") from None

    def _look_at(self, response: httpx2.Response) -> None:
        """Nothing is read of what it says besides the status."""
        if response.is_success:
            self.trouble, self._put_off = "", 0
            return
        status = response.status_code
        moved = "; redirects are not followed: give the URL that it leads to" if response.has_redirect_location else ""
        fault = Undelivered(f"the webhook at {self._host} answers {status}{moved}")
        wait = response.headers.get("retry-after", "")
        if status in _BUSY and wait.isdecimal() and wait.isascii():
            fault.retry_after_s = min(max(1.0, float(wait[:6])), WEBHOOK_RETRY_AFTER_S_MAX)
            self._put_off += 1
            if self._put_off >= _PUT_OFF_MAX:  # nobody is asked meanwhile
                self.trouble = f"{fault}, again and again"
        raise fault
