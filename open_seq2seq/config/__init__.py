"""Config files and the command line: read, merged, overridden, checked and saved."""
