"""The request-policy chain: ordered policies over one HTTP request or response."""
