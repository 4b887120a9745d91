"""Speed as ratios within one run: against raw limits and peers, on this machine, now."""
