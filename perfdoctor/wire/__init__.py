"""The contract with the probe: row layouts, flags, file names and typed events, imported by both sides.

The user's interpreter loads it too: Python 3.9, the standard library, relative imports, nothing else of ours.
"""
