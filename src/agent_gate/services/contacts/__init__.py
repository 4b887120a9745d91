"""The service `contacts`: what the owner lets others use on their behalf, kept sealed."""

from agent_gate.services.contacts.service import ContactsService

__all__ = ["ContactsService"]
