"""What training scripts report of themselves, for people.

progress_bar  how far a job is, as a bar, as a cell of a table, and in words
warned        a job's warnings, each told once
"""
