"""Routes of the API that are not of jobs.

signed_requests  the request being answered, as routes read it, and answers as they write them
configuration    pools and limits, and the way to the next
usage            what jobs have used
documents        the whole configuration as a document, projects, and the record
"""
