"""A federated job in a folder, in the form of NVIDIA FLARE, as one gang.

job_folder  meta.json and the app folders, read and checked
meta        the rules of meta.json
sites       the rules of its deploy_map and resource_spec
app_folder  an app: job.json, and the rest of its folder as an archive
members     the group that the job becomes, and the names of its runs
"""
