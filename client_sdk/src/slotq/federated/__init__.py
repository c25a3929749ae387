"""A federated job in a folder, in the form of NVIDIA FLARE, as one gang.

job_folder  meta.json and the app folders, read and checked
meta        the rules of meta.json
deploy_map  the rules of its deploy_map: which app goes to which site
resources   the rules of its resource_spec: what a site needs of its pool
app_folder  an app: job.json, and the rest of its folder as an archive
members     the group that the job becomes
runs        the names of its runs: each submission is one
"""
