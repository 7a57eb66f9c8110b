"""How fast this processor computes in float32 and in bfloat16: measured, and remembered."""
