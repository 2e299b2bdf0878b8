"""Look at a machine while it is in trouble and leave a bundle. Standard library only, Python 3.9 or newer."""
