"""What a trial proved, as a change of the user's files: a diff to look at and to apply."""
