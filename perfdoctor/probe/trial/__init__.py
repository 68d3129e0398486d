"""One execution of a trial, seen from inside: seeds, tweaks, its end."""
