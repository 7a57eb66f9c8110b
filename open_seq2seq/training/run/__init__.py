"""One run of the command: log directory, inputs, models, and what is printed about them."""
