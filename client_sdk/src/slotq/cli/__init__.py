"""The program `slotq`.

main            the group of commands
app             what all commands share
exits           exit codes
verbs           commands that change jobs
views           commands that show jobs
groups          commands about groups as a whole
queue           commands about the queue as a whole
whatif          `slotq whatif`
machine         commands about this machine
top             `slotq top`
on_jobs         one verb over several jobs; one job, or the group of that name
selection       jobs that options select
encoding        streams that cannot encode every character, or are closed
name_arguments  job names on the command line
dry_run         dry submissions: for `--dry-run`, and before anything is uploaded
setting_options  options made from the settings' lines in the model
words           other arguments and options
forwarding      ports of a job on this machine
schemas         the JSON schema of each command's output
"""
