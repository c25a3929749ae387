"""Rules that every store applies: how jobs and changes of them become what is kept.

snapshots       builds the snapshot of a pass, and what projects with a budget have spent
order_keys      the order within a line, as strings
holdings        what a transaction takes from each pool and gives back
warm_changes    the warm slots that ended attempts leave, and what they used
yields          who has yielded to a time slice
ends            how long an ended job stays readable; what an ended attempt used
scheduled       when pools open, close or change their size
configured      what of a new configuration is kept
callbacks       which token of a job counts
stored_request  a request as it is kept: compressed JSON
"""
