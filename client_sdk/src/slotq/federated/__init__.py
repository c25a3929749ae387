"""A federated job in a folder, in the form of NVIDIA FLARE, as one gang.

job_folder  meta.json or meta.conf and the app folders, read and checked
hocon       meta.conf as an object
meta        the rules of meta.json
sites       the rules of its deploy_map and resource_spec
app_folder  an app: job.json, and the rest of its folder as an archive
simulator   a folder of FLARE's apps, run by FLARE's simulator
members     the group that the job becomes, and the names of its runs
"""
