"""Facts on steps: where they begin and end, how long they take, what happens in them."""
