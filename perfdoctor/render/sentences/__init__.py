"""The sentences of notes by their slugs, a file for each subject. Values stand in braces; no full stop."""
