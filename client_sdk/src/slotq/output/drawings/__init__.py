"""Trees and time lines in text.

job_graph      which jobs come after which
timeline_text  the attempts of a window
"""
