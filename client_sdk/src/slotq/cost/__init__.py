"""What a queue costs.

counts  measured calls and units
rates   prices and assumptions
bill    the bill
"""
