"""Whether what a report wanted gone is gone, and whether the memory is back."""
