"""The HTTP API of the manager.

table            the table of routes: path, method, right, handler, description
router           from an API event to the function that answers it
routes           the routes, bound to a manager, and each refusal as an `ErrorView`
signed_requests  the request being answered, as routes read it, and answers as they write them
tags             entity tags: what has not changed is not sent again
jobs             jobs
job_changes      what a request wants of jobs
groups           groups of jobs
pools_and_limits  pools, and the limits of callers
documents        the whole configuration as a document, projects, and the record
usage            what jobs have used
queue            the queue itself, its caller, and the whole of it as data
pipeline_steps   messages of callback steps, as requests
openapi          the description of the routes; the Lambda does not import it
"""
