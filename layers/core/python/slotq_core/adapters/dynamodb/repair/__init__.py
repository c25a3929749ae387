"""What keeps the table whole.

inspection    compares everything in the table with itself (`slotq doctor`)
copies        a job's copies against its own item, a pool's ledger against its holders
quarantine    what a pass cannot understand
conditions    rows that can never be what is asked of them
line_audit    bounds that would hide a job from a pass
awaited_jobs  jobs that wait for an end of which nobody would tell them
old_lines     waiting jobs in lines of an earlier version
upkeep        the facet: these, and marks the records of ended jobs for removal
backup        the table as a file, and back
"""
