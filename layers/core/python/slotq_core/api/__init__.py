"""The HTTP API of the manager.

routes           the table of routes, and each refusal as an `ErrorView`
router           from an API event to the function that answers it
signed_requests  the request being answered, as routes read it, and answers as they write them
configuration    the routes of the configuration, each imported with its first request
pools_and_limits  pools, and the limits of callers
groups           groups of jobs
job_changes      what a request wants of jobs
about            the queue itself, and its caller
usage            what jobs have used
scenario         the whole queue, to be reckoned on with
documents        the whole configuration as a document, projects, and the record
slow_saves       warnings of saves that take longer than a pool waits for them
openapi          the description of the routes; the Lambda does not import it
"""
