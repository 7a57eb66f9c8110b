"""Data layers of images and their labels."""
