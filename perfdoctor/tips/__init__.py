"""One file a finding; `catalogue` finds them."""
