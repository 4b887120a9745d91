"""Kills, failing disks and other programs in the way: the ledger and the pipeline keep their promises."""
