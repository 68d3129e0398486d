"""One file an observer: what is watched beside the steps."""
