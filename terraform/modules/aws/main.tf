# What all files share. What runs, and who may reach what, is drawn in the README.

data "aws_region" "here" {}

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

data "aws_vpc" "this" {
  id = var.vpc_id

  lifecycle {
    postcondition {
      condition     = try(self.tags["Name"], "") != ""
      error_message = "The VPC ${var.vpc_id} needs a tag Name: SkyPilot finds it by that, in this region and in others."
    }
  }
}

data "aws_subnet" "load_balancer" {
  for_each = toset(var.load_balancer_subnet_ids)

  id = each.value
}

locals {
  account   = data.aws_caller_identity.this.account_id
  partition = data.aws_partition.this.partition
  region    = data.aws_region.here.region
  tags      = merge(var.tags, { "medley:deployment" = var.name })

  api_port     = 8080
  gateway_port = 8000
  node_ports   = { hub = 7501, registry = 7502, demand = 7503 }

  # The user of the image
  uid  = 10001
  home = "/var/lib/medley"
}

resource "aws_kms_key" "this" {
  description             = "${var.name}: database, files, secrets and logs"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = data.aws_iam_policy_document.key.json
  tags                    = local.tags
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}

data "aws_iam_policy_document" "key" {
  # A key's policy names the key by "*"; the account's IAM decides on the rest, as AWS' own default policy has it.
  #checkov:skip=CKV_AWS_109:The account keeps control of its key; "*" is this key
  #checkov:skip=CKV_AWS_111:The account keeps control of its key; "*" is this key
  #checkov:skip=CKV_AWS_356:In a key's policy "*" is the key that it belongs to
  statement {
    actions   = ["kms:*"]
    resources = ["*"]
    principals {
      type        = "AWS"
      identifiers = ["arn:${local.partition}:iam::${local.account}:root"]
    }
  }

  statement {
    actions   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"]
    resources = ["*"]
    principals {
      type        = "Service"
      identifiers = ["logs.${local.region}.amazonaws.com"]
    }
    condition {
      test     = "ArnLike"
      variable = "kms:EncryptionContext:aws:logs:arn"
      values   = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/${var.name}/*"]
    }
  }
}
