"""torch is never imported: there are no steps."""

# truth: steps=0
total = 0
for number in range(1_000_000):
    total += number * number % 7
print("total", total)
