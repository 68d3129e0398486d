"""Step borders, phases, gradient clearing, evaluation passes and losses."""
