"""The words of perfdoctor as types: measured, concluded, reported.

A type lives here when it is shown or written into a document, when trials, renderers or commands ask for it,
or when facts of several folders share it; one file holds one topic. Facts that one folder makes and only tips
read live beside the function that makes them. Nothing in here imports another package, reads or decides.
"""
