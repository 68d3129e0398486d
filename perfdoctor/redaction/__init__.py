"""What may be stored and shown of what the user typed or wrote: no secrets."""
