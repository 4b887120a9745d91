"""Webhook: questions are posted to a URL of the operator's, signed, and answered by a signed request."""
