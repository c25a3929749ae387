"""Repair of the table.

inspection    checks the whole table for consistency (`slotq doctor`)
copies        checks a job's copies against the job, and a pool's ledger against its holders
node_records  checks a node against its slot and its jobs
quarantine    moves unreadable items away
conditions    finds items that no condition could ever hold for
line_audit    finds bounds that would hide a job from a pass
awaited_jobs  finds jobs that no end would notify
old_lines     moves waiting jobs out of lines of an earlier version
upkeep        the facet: all of these, and the expiry of ended jobs' records
backup        saves the table to a file, and restores it
"""
