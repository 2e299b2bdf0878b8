"""One file that holds what was seen on a machine; ``docs/bundle-format.md`` says what every byte of it means."""
