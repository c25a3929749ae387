# The stack of slotq.template.json, as `slotq deploy` makes it (docs/release.md): the same code, the same parameters.

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "stack_name" {
  type        = string
  default     = "slotq"
  description = "The name of the CloudFormation stack, which clients give as SLOTQ_QUEUE."
}

variable "code_bucket" {
  type        = string
  default     = null
  description = "A bucket of the stack's region for the code. If null, the module makes one."
}

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  release  = "${path.module}/.."
  region   = data.aws_region.current.name
  bucket   = var.code_bucket == null ? aws_s3_bucket.code[0].bucket : var.code_bucket
  template = "slotq/${substr(filesha256("${local.release}/slotq.template.json"), 0, 16)}-slotq.template.json"
  objects = merge(
    { for file in fileset("${local.release}/code", "*.zip") : "slotq/${file}" => "${local.release}/code/${file}" },
    { (local.template) = "${local.release}/slotq.template.json" },
  )
}

resource "aws_s3_bucket" "code" {
  count  = var.code_bucket == null ? 1 : 0
  bucket = "slotq-${data.aws_caller_identity.current.account_id}-${local.region}"
}

resource "aws_s3_bucket_public_access_block" "code" {
  count                   = var.code_bucket == null ? 1 : 0
  bucket                  = aws_s3_bucket.code[0].bucket
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

# The keys name the contents, so what has changed is another object.
resource "aws_s3_object" "release" {
  for_each = local.objects
  bucket   = local.bucket
  key      = each.key
  source   = each.value
}

resource "aws_cloudformation_stack" "queue" {
  name         = var.stack_name
  template_url = "https://${local.bucket}.s3.${local.region}.${data.aws_partition.current.dns_suffix}/${local.template}"
  capabilities = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
  on_failure   = "DELETE"
  parameters   = merge({ for name, value in local.parameters : name => value if value != null }, { CodeBucket = local.bucket })
  depends_on   = [aws_s3_object.release]
}
