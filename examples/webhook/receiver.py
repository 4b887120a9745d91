"""A receiver of agent-gate's webhook: checks the signature, shows the question, and sends the answer back, signed."""

import base64
import hmac
import json
import os
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx2

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
GATE, APPROVER = os.environ["GATE_URL"], os.environ["APPROVER"]


def signature(message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()


def answer(data: dict[str, Any], verb: str) -> None:
    body = json.dumps({"type": "answer", "approver": APPROVER, "answer": data["answers"][verb]}).encode()
    message_id, timestamp = uuid.uuid4().hex, str(int(time.time()))
    headers = {"Content-Type": "application/json", "webhook-id": message_id, "webhook-timestamp": timestamp}
    headers["webhook-signature"] = signature(message_id, timestamp, body)
    httpx2.post(f"{GATE}/api/v1/answers", content=body, headers=headers, trust_env=False).raise_for_status()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        message_id, timestamp = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        genuine = hmac.compare_digest(self.headers["webhook-signature"], signature(message_id, timestamp, body))
        genuine = genuine and abs(time.time() - int(timestamp)) < 300
        self.send_response(204 if genuine else 401)
        self.end_headers()
        if genuine:
            message = json.loads(body)
            print(message["type"], message["data"]["text"], sep="\n", flush=True)
            if message["type"] == "question.asked":
                answer(message["data"], input("allow or deny? "))


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
