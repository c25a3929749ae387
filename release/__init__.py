"""`make release`: a folder from which a queue is installed without a clone (docs/release.md).

archives          zip files whose bytes depend on their contents alone
template          the template with the code's places in a bucket
terraform_module  the same stack as a module of Terraform
"""
