# Who may do what: each process has a role of its own. Rights to price are read-only; rights to launch are those that
# SkyPilot 0.14 calls for as it is told to launch here, and what docs/clouds.md adds.

locals {
  processes = {
    api       = { policies = { price = data.aws_iam_policy_document.price.json } }
    gateway   = { policies = {} }
    reconcile = { policies = { price = data.aws_iam_policy_document.price.json, launch = data.aws_iam_policy_document.launch.json } }
    first     = { policies = { token = data.aws_iam_policy_document.first_token.json } }
  }

  policies = merge([for process, each in local.processes : {
    for policy, json in each.policies : "${process}-${policy}" => { process = process, policy = policy, json = json }
  }]...)
}

data "aws_iam_policy_document" "tasks_assume" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
  }
}

resource "aws_iam_role" "task" {
  for_each = local.processes

  name               = "${var.name}-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.tasks_assume.json
  tags               = local.tags
}

resource "aws_iam_role_policy" "task" {
  for_each = local.policies

  name   = each.value.policy
  role   = aws_iam_role.task[each.value.process].id
  policy = each.value.json
}

# Prices, offerings and quotas
data "aws_iam_policy_document" "price" {
  #checkov:skip=CKV_AWS_356:These read-only actions take no resource but "*"
  statement {
    actions = [
      "ec2:DescribeRegions",
      "ec2:DescribeAvailabilityZones",
      "ec2:DescribeInstanceTypeOfferings",
      "ec2:DescribeSpotPriceHistory",
      "pricing:GetProducts",
      "servicequotas:ListServiceQuotas",
    ]
    resources = ["*"]
  }
}

locals {
  # Where there is no group NAME-nodes yet: SkyPilot makes it.
  regions_away = setsubtract(var.launch_regions, [local.region])
}

# Each right, and the call that needs it, is in the README.
data "aws_iam_policy_document" "launch" {
  #checkov:skip=CKV_AWS_356:Describe actions take no resource but "*"
  #checkov:skip=CKV_AWS_111:What writes is bound to regions, and ends or changes only what SkyPilot has tagged
  statement {
    sid       = "Look"
    actions   = ["ec2:Describe*"]
    resources = ["*"]
  }

  statement {
    sid     = "Launch"
    actions = ["ec2:RunInstances"]
    resources = flatten([for region in var.launch_regions : [
      "arn:${local.partition}:ec2:${region}::image/ami-*",
      "arn:${local.partition}:ec2:${region}:${local.account}:instance/*",
      "arn:${local.partition}:ec2:${region}:${local.account}:network-interface/*",
      "arn:${local.partition}:ec2:${region}:${local.account}:volume/*",
      "arn:${local.partition}:ec2:${region}:${local.account}:subnet/*",
      "arn:${local.partition}:ec2:${region}:${local.account}:security-group/*",
      "arn:${local.partition}:ec2:${region}:${local.account}:spot-instances-request/*",
    ]])
  }

  # Only while it is made: a tag is what may be ended by.
  statement {
    sid     = "TagWhatIsMade"
    actions = ["ec2:CreateTags"]
    resources = flatten([for region in var.launch_regions : [
      for kind in ["instance", "volume", "security-group", "spot-instances-request"] :
      "arn:${local.partition}:ec2:${region}:${local.account}:${kind}/*"
    ]])
    condition {
      test     = "StringEquals"
      variable = "ec2:CreateAction"
      values   = ["RunInstances", "CreateSecurityGroup"]
    }
  }

  # Also where no node may be launched any more: nothing stays that costs money.
  statement {
    sid       = "EndOwnNodes"
    actions   = ["ec2:TerminateInstances"]
    resources = ["arn:${local.partition}:ec2:*:${local.account}:instance/*"]
    condition {
      test     = "StringLike"
      variable = "ec2:ResourceTag/medley-owner"
      values   = ["*"]
    }
  }

  # Before a machine has all of its tags, and for launches that are broken off
  statement {
    sid       = "ChangeNodesOfSkyPilot"
    actions   = ["ec2:TerminateInstances", "ec2:StartInstances", "ec2:CreateTags"]
    resources = [for kind in ["instance", "volume"] : "arn:${local.partition}:ec2:*:${local.account}:${kind}/*"]
    condition {
      test     = "StringLike"
      variable = "ec2:ResourceTag/skypilot-cluster-name"
      values   = ["*"]
    }
  }

  dynamic "statement" {
    for_each = length(local.regions_away) > 0 ? ["MakeGroupOfNodes"] : []
    content {
      sid     = statement.value
      actions = ["ec2:CreateSecurityGroup"]
      resources = flatten([for region in local.regions_away : [
        for kind in ["security-group", "vpc"] : "arn:${local.partition}:ec2:${region}:${local.account}:${kind}/*"
      ]])
    }
  }

  dynamic "statement" {
    for_each = length(local.regions_away) > 0 ? ["OpenGroupOfNodes"] : []
    content {
      sid       = statement.value
      actions   = ["ec2:AuthorizeSecurityGroupIngress"]
      resources = [for region in local.regions_away : "arn:${local.partition}:ec2:${region}:${local.account}:security-group/*"]
      condition {
        test     = "StringEquals"
        variable = "ec2:ResourceTag/skypilot"
        values   = ["true"]
      }
    }
  }

  statement {
    sid       = "FirstSpotNodeOfAnAccount"
    actions   = ["iam:CreateServiceLinkedRole"]
    resources = ["arn:${local.partition}:iam::${local.account}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"]
    condition {
      test     = "StringEquals"
      variable = "iam:AWSServiceName"
      values   = ["spot.amazonaws.com"]
    }
  }

  statement {
    sid       = "RoleOfNodes"
    actions   = ["iam:GetRole", "iam:GetInstanceProfile"]
    resources = [for kind in ["role", "instance-profile"] : "arn:${local.partition}:iam::${local.account}:${kind}/skypilot-v1"]
  }

  statement {
    sid       = "GiveNodesTheirRole"
    actions   = ["iam:PassRole"]
    resources = ["arn:${local.partition}:iam::${local.account}:role/skypilot-v1"]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "first_token" {
  statement {
    actions   = ["secretsmanager:PutSecretValue"]
    resources = [aws_secretsmanager_secret.first_token.arn]
  }

  statement {
    actions   = ["kms:GenerateDataKey", "kms:Decrypt"]
    resources = [aws_kms_key.this.arn]
  }
}

# What starts tasks: images, logs, and the secrets that tasks get as variables
resource "aws_iam_role" "execution" {
  name               = "${var.name}-execution"
  assume_role_policy = data.aws_iam_policy_document.tasks_assume.json
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "execution" {
  role       = aws_iam_role.execution.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"
}

resource "aws_iam_role_policy" "execution" {
  name   = "secrets"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

data "aws_iam_policy_document" "execution" {
  statement {
    actions   = ["secretsmanager:GetSecretValue"]
    resources = compact([aws_secretsmanager_secret.database_url.arn, var.runpod_secret_arn])
  }

  statement {
    actions   = ["kms:Decrypt"]
    resources = [aws_kms_key.this.arn]
  }
}

# The role of nodes: SkyPilot takes it as it is. One it makes itself has full access to EC2 and S3.
resource "aws_iam_role" "node" {
  count = var.create_node_role ? 1 : 0

  name               = "skypilot-v1"
  description        = "Nodes of Medley: no rights"
  assume_role_policy = data.aws_iam_policy_document.node_assume.json
  tags               = local.tags
}

resource "aws_iam_instance_profile" "node" {
  count = var.create_node_role ? 1 : 0

  name = "skypilot-v1"
  role = aws_iam_role.node[0].name
  tags = local.tags
}

data "aws_iam_policy_document" "node_assume" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "database_monitoring" {
  name               = "${var.name}-database-monitoring"
  assume_role_policy = data.aws_iam_policy_document.monitoring_assume.json
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "database_monitoring" {
  role       = aws_iam_role.database_monitoring.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AmazonRDSEnhancedMonitoringRole"
}

data "aws_iam_policy_document" "monitoring_assume" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["monitoring.rds.amazonaws.com"]
    }
  }
}
