"""What becomes of attempts.

listening     reports of training scripts that decide something
suspends      asks scripts to release their slots, and knows when a grace is over
pool_lessons  what an outcome teaches about a pool
rights_report  missing rights, for those who can give them
gang_starts   environment variables for the members of a gang
"""
