"""The probe: the part of perfdoctor that lives inside the user's process.

Standard library only; torch is touched inside functions, after the script has imported it itself.
"""
