"""Take secrets out of what was read, without touching what the explanation rests on. Standard library only."""
