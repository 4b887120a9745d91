"""Phones of people at home: questions as notifications of Home Assistant's app, answered there by a button."""
