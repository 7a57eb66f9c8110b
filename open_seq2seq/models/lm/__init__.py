"""Language models, and classification with their encoders."""
