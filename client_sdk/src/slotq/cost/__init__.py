"""What a queue costs: measured counts, prices and assumptions, and the bill that they make."""
