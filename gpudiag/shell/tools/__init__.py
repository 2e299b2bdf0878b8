"""One module a kill tool; each is pure: a step and the recorded processes in, a selection out."""
