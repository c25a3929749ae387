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
each            one verb over several jobs
selection       jobs that options select
closed_streams  standard streams that the caller has closed
encoding        output that the terminal cannot encode
name_arguments  job names on the command line
dry_run         dry submissions: for `--dry-run`, and before anything is uploaded
forward_option  ports on the command line
setting_options  options made from the settings' lines in the model
words           other arguments
schemas         the JSON schema of each command's output
"""
