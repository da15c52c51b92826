# What several processes read: keys by which nodes know the control plane, the routing table, SkyPilot's state, and
# measured step times. All else is in the database.

resource "aws_efs_file_system" "this" {
  encrypted        = true
  kms_key_id       = aws_kms_key.this.arn
  performance_mode = "generalPurpose"
  throughput_mode  = "elastic"
  tags             = merge(local.tags, { Name = var.name })
}

resource "aws_efs_backup_policy" "this" {
  file_system_id = aws_efs_file_system.this.id

  backup_policy {
    status = "ENABLED"
  }
}

resource "aws_efs_mount_target" "this" {
  for_each = toset(var.private_subnet_ids)

  file_system_id  = aws_efs_file_system.this.id
  subnet_id       = each.value
  security_groups = [aws_security_group.this["files"].id]
}

resource "aws_efs_access_point" "this" {
  for_each = toset(["control", "profiles"])

  file_system_id = aws_efs_file_system.this.id
  tags           = merge(local.tags, { Name = "${var.name}-${each.value}" })

  posix_user {
    uid = local.uid
    gid = local.uid
  }

  root_directory {
    path = "/${each.value}"
    creation_info {
      owner_uid   = local.uid
      owner_gid   = local.uid
      permissions = "0700"
    }
  }
}

# Only over TLS, and only by a role that was given the access point.
resource "aws_efs_file_system_policy" "this" {
  file_system_id = aws_efs_file_system.this.id
  policy         = data.aws_iam_policy_document.files.json
}

locals {
  mounts = {
    read_control   = { point = "control", roles = [aws_iam_role.task["gateway"].arn], write = false }
    write_control  = { point = "control", roles = [aws_iam_role.task["reconcile"].arn], write = true }
    read_profiles  = { point = "profiles", roles = [aws_iam_role.task["api"].arn], write = false }
    write_profiles = { point = "profiles", roles = [aws_iam_role.task["reconcile"].arn], write = true }
  }
}

data "aws_iam_policy_document" "files" {
  dynamic "statement" {
    for_each = local.mounts

    content {
      actions = concat(
        ["elasticfilesystem:ClientMount"], statement.value.write ? ["elasticfilesystem:ClientWrite"] : []
      )
      resources = [aws_efs_file_system.this.arn]

      principals {
        type        = "AWS"
        identifiers = statement.value.roles
      }

      condition {
        test     = "StringEquals"
        variable = "elasticfilesystem:AccessPointArn"
        values   = [aws_efs_access_point.this[statement.value.point].arn]
      }

      condition {
        test     = "Bool"
        variable = "aws:SecureTransport"
        values   = ["true"]
      }
    }
  }
}
