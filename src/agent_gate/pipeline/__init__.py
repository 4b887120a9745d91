"""The way of a call: admit, bind, decide, hold, perform, settle."""
