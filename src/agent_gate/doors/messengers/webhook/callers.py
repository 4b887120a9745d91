"""Answers by webhook: an approver, named in a request that the holder of the secret has signed, and only once."""

from __future__ import annotations

from collections import OrderedDict

from starlette.requests import Request

from agent_gate.config import Config, WebhookConfig
from agent_gate.doors.callers import Answered, Callers, too_many
from agent_gate.doors.context import ServerContext
from agent_gate.doors.http import address_of, body_of
from agent_gate.doors.messengers.webhook.signature import ID, SIGNATURE, TIMESTAMP, Signed, Signer, signed_by
from agent_gate.model.approval import Approver
from agent_gate.model.bounds import WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_ANSWERS_KEPT_MAX, WEBHOOK_WINDOW_S
from agent_gate.model.codec import CodecError, parse
from agent_gate.model.errors import IdentityError, ToolError


class TakenBefore(IdentityError):
    """The same answer once more; what it said counts, or does not, since the first time."""


def webhook_of(config: Config) -> WebhookConfig | None:
    return next((one.webhook for one in config.every_messenger if one.webhook is not None), None)


class SignedCallers:
    """For one operation; a chain of `/api` can only narrow it."""

    def __init__(self, context: ServerContext, settings: WebhookConfig | None, callers: Callers) -> None:
        self._context, self._callers = context, callers
        self._secret = settings.secret if settings else ""
        self._signer = Signer(settings.secret) if settings else None
        self._taken: OrderedDict[str, None] = OrderedDict()

    async def of(self, request: Request) -> Approver | Answered:
        """IdentityError where the request is not signed as it must be, or names nobody."""
        refused = await self._callers.refused_by_chain(request)
        if refused is not None:
            return refused
        header = request.headers.getlist
        signed = signed_by(header(ID), header(TIMESTAMP), header(SIGNATURE))
        if self._signer is None or signed is None:  # that is no guess
            what = "carries no signature" if self._signer else "is signed, and no webhook is set up here"
            raise IdentityError(f"the request {what}", suggestion=f"send {ID}, {TIMESTAMP} and {SIGNATURE}")
        body = await body_of(request, WEBHOOK_ANSWER_BYTES_MAX)
        is_genuine = self._signer.is_genuine(signed, body)
        address, throttle = address_of(request), self._context.throttle
        wait_s = throttle.wait_s(address, self._secret if is_genuine else "")
        if wait_s:
            return too_many(wait_s)
        if not is_genuine:
            throttle.failed(address)
            raise IdentityError("the signature is not right", suggestion="sign with the secret of the webhook")
        throttle.succeeded(address, self._secret)
        self._take_once(signed)
        return self._named_in(body)

    def _take_once(self, signed: Signed) -> None:
        if abs(self._context.gate.clock.now() - signed.timestamp) > WEBHOOK_WINDOW_S:
            raise IdentityError(
                f"the request was signed more than {WEBHOOK_WINDOW_S} s ago or ahead",
                suggestion="sign it when you send it, and set the clock",
            )
        if signed.id in self._taken:
            raise TakenBefore(
                "an answer with this id was taken before", code=6003, suggestion="give each answer an id of its own"
            )
        self._taken[signed.id] = None
        if len(self._taken) > WEBHOOK_ANSWERS_KEPT_MAX:
            self._taken.popitem(last=False)

    def _named_in(self, body: bytes) -> Approver:
        try:
            said = parse(body)
        except CodecError as error:
            raise ToolError(f"the body is {error}", code=2002, suggestion="send one JSON object") from None
        name = said.get("approver") if isinstance(said, dict) else None
        approver = self._context.identities.approvers.get(name) if isinstance(name, str) else None
        if approver is None:
            raise IdentityError(
                "the answer names no approver of the configuration",
                code=6003,
                suggestion="give the id of one of `approvers` as `approver`",
            )
        return approver
