"""One run of the command: its log directory, inputs and models, and what it prints about them."""
