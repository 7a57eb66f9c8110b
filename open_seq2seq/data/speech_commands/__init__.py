"""The data layer of spoken commands: short recordings and their classes."""
